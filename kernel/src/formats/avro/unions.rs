//! Unions of the writer or of the reader: finds the branch that reads a value.

use std::collections::HashMap;

use arrow_schema::{DataType, Fields};

use super::fill::Fill;
use super::resolve::{Resolver, primitive};
use super::schema::{Kind, NodeId};
use super::schema_budget::STEP;
use super::types::{Path, Union, member, union};

impl Resolver<'_> {
    /// Any type, read by a union: by the branch of the same type, or else the first branch that can read it.
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
                // Usually a branch of the same type and name. The others are ordered only if there is none.
                let same = self.same_branch(writer, reader, &values)?;
                if let Some(index) = same
                    && let Some(fill) = self.member(writer, index, &values, fields, path)?
                {
                    return Ok(fill);
                }
                self.budget.spend(STEP * values.len())?;
                for index in self.by_likeness(writer, &values) {
                    if Some(index) != same
                        && let Some(fill) = self.member(writer, index, &values, fields, path)?
                    {
                        return Ok(fill);
                    }
                }
                self.budget.check()?;
                Err(self.mismatch(writer, reader, path))
            }
        }
    }

    /// Reads a value by the branch of this index. None if that is not possible. A failed attempt counts as work, too.
    fn member(
        &mut self,
        writer: NodeId,
        index: usize,
        values: &[NodeId],
        fields: &Fields,
        path: &Path<'_>,
    ) -> Result<Option<Fill>, String> {
        self.budget.spend(STEP + fields.len())?;
        let name = member(index);
        let Some((place, field)) = fields.find(&name) else {
            // The member is not selected. Would this branch have read the value?
            let Some(full) = self.type_of(values[index]) else { return Ok(None) };
            return match self.resolve(writer, values[index], &full, &path.below(&name)) {
                Ok(_) => Ok(Some(Fill::NoMember(self.skip(writer)?))),
                Err(_) => Ok(None),
            };
        };
        let fill = self.resolve(writer, values[index], field.data_type(), &path.below(&name));
        Ok(fill.ok().map(|fill| Fill::Member(place, Box::new(fill))))
    }

    /// The first branch of a union that has the same type and full name, or an alias for it.
    fn same_branch(
        &mut self,
        writer: NodeId,
        reader: NodeId,
        values: &[NodeId],
    ) -> Result<Option<usize>, String> {
        if !self.branches.contains_key(&reader) {
            let mut known = HashMap::new();
            for (index, &branch) in values.iter().enumerate() {
                let node = self.reader.node(branch);
                self.budget.spend(STEP * (1 + self.reader.aliases(branch).len()))?;
                let names = node.name.iter().flat_map(|name| name.aliases.iter().chain([&name.full]));
                let names = names.map(String::as_str).chain(node.name.is_none().then_some(""));
                for name in names {
                    known.entry((node.kind.name(), name)).or_insert(index);
                }
            }
            self.branches.insert(reader, known);
        }
        let written = self.writer.node(writer);
        let name = written.name.as_ref().map_or("", |name| name.full.as_str());
        Ok(self.branches[&reader].get(&(written.kind.name(), name)).copied())
    }

    /// The branches of the reader in the order in which they are tried: those of the same type and full name, of the
    /// same type and name, of the same type, all others.
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
        // Not sorted: a union may have thousands of branches, and this runs for each branch of the writer.
        let mut orders: [Vec<usize>; 4] = Default::default();
        (0..branches.len()).for_each(|index| orders[unlike(&index)].push(index));
        orders.concat()
    }

    /// A union of the writer, read by any type: each branch by itself. A branch that the reader cannot read makes only
    /// the records that use it bad.
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
                    self.budget.check()?;
                    error = error.or(Some(reason).filter(|_| !is_null));
                    let what = self.writer.describe(branch);
                    self.budget.spend(STEP + what.len())?;
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
