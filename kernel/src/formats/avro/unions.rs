//! Unions, on either side: the branch that a value is read by.

use arrow_schema::DataType;

use super::fill::Fill;
use super::resolve::{Resolver, primitive};
use super::schema::{Kind, NodeId};
use super::types::{Path, Union, member, union};
use super::work::STEP;

impl Resolver<'_> {
    /// Any type, read by a union: its branch of the same type, or else the first that takes it.
    pub fn read_union(
        &mut self,
        writer: NodeId,
        reader: NodeId,
        branches: &[NodeId],
        wanted: &DataType,
        path: &Path<'_>,
    ) -> Result<Fill, String> {
        if let Kind::Null = self.writer.kind(writer) {
            return if branches.iter().any(|&branch| matches!(self.reader.kind(branch), Kind::Null)) {
                Ok(Fill::Null)
            } else {
                Err(self.mismatch(writer, reader, path))
            };
        }
        match union(self.reader, branches) {
            Union::Null => Err(self.mismatch(writer, reader, path)),
            Union::One(branch) => self.resolve(writer, branch, wanted, path),
            Union::Wider(wider) => {
                let kind = self.writer.kind(writer);
                let narrower = wider == DataType::Int64 && matches!(kind, Kind::Float | Kind::Double);
                let fill = if narrower { None } else { primitive(kind, None, None, &wider) };
                fill.ok_or_else(|| self.mismatch(writer, reader, path))
            }
            Union::Members(values) => {
                let DataType::Struct(fields) = wanted else {
                    return Err(self.mismatch(writer, reader, path));
                };
                // What is tried here and fails is work all the same.
                self.work.spend(STEP / 8 * values.len())?;
                for index in self.by_likeness(writer, &values) {
                    self.work.spend(STEP + fields.len())?;
                    let name = member(index);
                    let Some((place, field)) = fields.find(&name) else {
                        // Nobody wants this member; would it have been this one?
                        let Some(full) = self.type_of(values[index]) else { continue };
                        if self.resolve(writer, values[index], &full, &path.below(&name)).is_err() {
                            continue;
                        }
                        return Ok(Fill::NoMember(self.skip(writer)?));
                    };
                    if let Ok(fill) =
                        self.resolve(writer, values[index], field.data_type(), &path.below(&name))
                    {
                        return Ok(Fill::Member(place, Box::new(fill)));
                    }
                }
                self.work.check()?;
                Err(self.mismatch(writer, reader, path))
            }
        }
    }

    /// The reader's branches in the order in which they are tried: those of the same type and full name, those of the
    /// same type and name, those of the same type, all others.
    fn by_likeness(&self, writer: NodeId, branches: &[NodeId]) -> Vec<usize> {
        let written = self.writer.node(writer);
        let unlike = |index: &usize| {
            let read = self.reader.node(branches[*index]);
            match (&written.name, &read.name) {
                _ if written.kind.name() != read.kind.name() => 3,
                (Some(written), Some(read)) if written.full == read.full => 0,
                (Some(written), Some(read)) if read.aliases.contains(&written.full) => 0,
                (Some(_), Some(_)) if self.same_name(writer, branches[*index]) => 1,
                (Some(_), Some(_)) => 2,
                _ => 0,
            }
        };
        let mut order: Vec<usize> = (0..branches.len()).collect();
        order.sort_by_key(unlike);
        order
    }

    /// A union, read by any type: each branch by itself. One that the reader cannot take costs the records that have it.
    pub fn written_union(
        &mut self,
        branches: &[NodeId],
        reader: NodeId,
        wanted: &DataType,
        path: &Path<'_>,
    ) -> Result<Fill, String> {
        let mut fills = Vec::with_capacity(branches.len());
        let mut error = None;
        let mut readable = 0;
        for &branch in branches {
            let is_null = matches!(self.writer.kind(branch), Kind::Null);
            fills.push(match self.resolve(branch, reader, wanted, path) {
                Ok(fill) => {
                    readable += usize::from(!is_null);
                    fill
                }
                Err(reason) => {
                    self.work.check()?;
                    error = error.or(Some(reason).filter(|_| !is_null));
                    let what = self.writer.describe(branch);
                    self.work.spend(STEP + what.len())?;
                    Fill::Refused(format!("is {what}, which the reader's schema has no place for"))
                }
            });
        }
        match error {
            Some(error) if readable == 0 => Err(error),
            _ => Ok(Fill::Union(fills)),
        }
    }
}
