//! Unions, on either side: the branch that a value is read by, and the column that its branches come together in.

use arrow_schema::DataType;

use super::resolve::{Part, Resolver, primitive};
use super::schema::{Kind, NodeId};
use super::shape::Shape;
use super::types::{Path, Union, data_type_of, member, union};
use super::walk::Walk;

/// arrow-avro fills the place of a null with zeros, as many as a value would have. Beyond this many bytes, a union with
/// null is read as one whose values lie apart.
const WIDEST_NULL: usize = 256;

impl Resolver<'_> {
    /// Any type, read by a union: its branch of the same type, or else the first that takes it.
    pub fn read_union(
        &mut self,
        writer: NodeId,
        reader: NodeId,
        branches: &[NodeId],
        wanted: &DataType,
        path: &Path<'_>,
    ) -> Result<Part, String> {
        if let Kind::Null = self.writer.kind(writer) {
            return if branches.iter().any(|&branch| matches!(self.reader.kind(branch), Kind::Null)) {
                Ok(self.null(wanted))
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
                let part = if narrower { None } else { primitive(kind, None, None, wider) };
                part.ok_or_else(|| self.mismatch(writer, reader, path))
            }
            Union::Members(values) => {
                let DataType::Struct(fields) = wanted else {
                    return Err(self.mismatch(writer, reader, path));
                };
                for index in self.by_likeness(writer, &values) {
                    let name = member(index);
                    let Some((place, field)) = fields.find(&name) else {
                        // Nobody wants this member; would it have been this one?
                        let Ok(full) = data_type_of(self.reader, values[index]) else {
                            continue;
                        };
                        if self.resolve(writer, values[index], &full, &path.below(&name)).is_err() {
                            continue;
                        }
                        let walk = Walk::Dropped(vec![(String::new(), self.skip(writer))]);
                        let shape = Shape::Member(fields.clone(), None, Box::new(Shape::Same));
                        return Ok(Part::new(walk, self.nothing(), shape));
                    };
                    if let Ok(part) =
                        self.resolve(writer, values[index], field.data_type(), &path.below(&name))
                    {
                        let shape = Shape::Member(fields.clone(), Some(place), Box::new(part.shape));
                        return Ok(Part { shape, ..part });
                    }
                }
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
    ) -> Result<Part, String> {
        let mut parts = Vec::with_capacity(branches.len());
        let mut error = None;
        let mut readable = 0;
        for &branch in branches {
            let is_null = matches!(self.writer.kind(branch), Kind::Null);
            parts.push(match self.resolve(branch, reader, wanted, path) {
                Ok(part) => {
                    readable += usize::from(!is_null);
                    part
                }
                Err(reason) => {
                    error = error.or(Some(reason).filter(|_| !is_null));
                    let what = self.writer.describe(branch);
                    let walk =
                        Walk::Refused(format!("is {what}, which the reader's schema has no place for"));
                    Part { walk, ..self.null(wanted) }
                }
            });
        }
        if readable == 0
            && let Some(error) = error
        {
            return Err(error);
        }
        let null = branches.iter().position(|&branch| matches!(self.writer.kind(branch), Kind::Null));
        if parts.len() - usize::from(null.is_some()) <= 1 {
            return Ok(self.nullable(parts, null, wanted));
        }
        Ok(self.dense(parts))
    }

    /// A union with one branch besides null, or with one alone: arrow-avro makes a column with nulls of it.
    fn nullable(&mut self, mut parts: Vec<Part>, null: Option<usize>, wanted: &DataType) -> Part {
        if parts.iter().any(|part| part.width > WIDEST_NULL) && null.is_some() {
            return self.dense(parts);
        }
        let Some(value) = (0..parts.len()).find(|&index| Some(index) != null) else {
            // Of nothing but null.
            let walk = Walk::Union(parts.into_iter().map(|part| part.walk).collect());
            return Part::new(walk, r#"["null","boolean"]"#, Shape::Null(wanted.clone()));
        };
        let shape = std::mem::replace(&mut parts[value].shape, Shape::Same);
        let width = parts[value].width;
        let written = match null {
            Some(0) => format!(r#"["null",{}]"#, parts[value].written),
            _ => format!(r#"[{},"null"]"#, parts[value].written),
        };
        let walk = Walk::Union(parts.into_iter().map(|part| part.walk).collect());
        Part { walk, written, shape, width }
    }

    /// A union whose values lie apart, each branch in a column of its own.
    fn dense(&mut self, parts: Vec<Part>) -> Part {
        // Where a record around the union is null, arrow-avro puts a value of the first branch.
        let width = parts[0].width;
        let (mut walks, mut written, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            walks.push(part.walk);
            // In a record, because two branches may have become one type (an int that is read as long).
            let field = format!(r#"{{"name":"v","type":{}}}"#, part.written);
            written.push(format!(r#"{{"type":"record",{},"fields":[{field}]}}"#, self.name()));
            shapes.push(Shape::Only(Box::new(part.shape)));
        }
        let written = format!("[{}]", written.join(","));
        Part { walk: Walk::Union(walks), written, shape: Shape::Union(shapes), width }
    }
}
