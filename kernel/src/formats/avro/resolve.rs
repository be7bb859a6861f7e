//! The writer's schema against the reader's, by the rules of Avro's schema resolution, settled once per pair.
//!
//! The result is in three parts that belong together: how to walk the written bytes, the schema that arrow-avro reads
//! what is left of them with, and how to shape what it makes. arrow-avro sees plain types only and no reader's schema:
//! defaults, promotions, enums, logical types and unions are turned into what Spark has by [`Shape`].

use std::collections::HashMap;

use arrow_schema::{DataType, Fields};

use super::constant::constant;
use super::schema::{Field, Kind, Logical, NodeId, Schema, Unit, last_part};
use super::shape::{Shape, Source, symbols};
use super::types::{MOST_TYPES, Path, Union, leaf, member, union};
use super::walk::Walk;

/// arrow-avro fills the place of a null with zeros, as many as a value would have. Beyond this many bytes, a union with
/// null is read as one whose values lie apart.
const WIDEST_NULL: usize = 256;

/// A record without fields: takes no bytes, whatever it stands for.
const NO_FIELDS: &str = r#""fields":[]"#;

pub struct Part {
    pub walk: Walk,
    /// The schema for arrow-avro, as JSON.
    pub written: String,
    pub shape: Shape,
    /// Bytes of fixed values in each, null or not.
    width: usize,
}

impl Part {
    fn new(walk: Walk, written: impl Into<String>, shape: Shape) -> Self {
        Part { walk, written: written.into(), shape, width: 0 }
    }
}

pub struct Resolver<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    /// Walks of records that are skipped, by their node.
    shared: HashMap<NodeId, usize>,
    pub walks: Vec<Walk>,
    names: usize,
    count: usize,
}

impl<'a> Resolver<'a> {
    pub fn new(writer: &'a Schema, reader: &'a Schema) -> Self {
        Resolver { writer, reader, shared: HashMap::new(), walks: Vec::new(), names: 0, count: 0 }
    }

    /// `wanted`: the type of `reader`, or a part of it.
    pub fn resolve(
        &mut self,
        writer: NodeId,
        reader: NodeId,
        wanted: &DataType,
        path: &Path<'_>,
    ) -> Result<Part, String> {
        self.count += 1;
        if self.count > MOST_TYPES {
            return Err(format!("has more than {MOST_TYPES} types, all references followed"));
        }
        if let Kind::Union(branches) = self.writer.kind(writer) {
            return self.written_union(branches, reader, wanted, path);
        }
        if let Kind::Union(branches) = self.reader.kind(reader) {
            return self.read_union(writer, reader, branches, wanted, path);
        }
        let mismatch = || self.mismatch(writer, reader, path);
        match (self.writer.kind(writer), self.reader.kind(reader), wanted) {
            (Kind::Null, Kind::Null, _) => Ok(Part::new(Walk::Nothing, "\"null\"", Shape::Same)),
            (Kind::Record(written), Kind::Record(fields), DataType::Struct(wanted)) => {
                self.record(written, fields, wanted, path)
            }
            (Kind::Array(item), Kind::Array(to), DataType::List(field)) => {
                let part = self.resolve(*item, *to, field.data_type(), &path.below("element"))?;
                let may_be_empty = self.writer.may_be_empty(*item);
                Ok(Part::new(
                    Walk::Array { item: Box::new(part.walk), may_be_empty, skip: false },
                    format!(r#"{{"type":"array","items":{}}}"#, part.written),
                    Shape::List(field.clone(), Box::new(part.shape)),
                ))
            }
            (Kind::Map(value), Kind::Map(to), DataType::Map(field, _)) => {
                let DataType::Struct(entries) = field.data_type() else { return Err(mismatch()) };
                let part = self.resolve(*value, *to, entries[1].data_type(), &path.below("value"))?;
                Ok(Part::new(
                    Walk::Map { value: Box::new(part.walk), skip: false },
                    format!(r#"{{"type":"map","values":{}}}"#, part.written),
                    Shape::Map(field.clone(), Box::new(part.shape)),
                ))
            }
            (Kind::Enum { symbols: written, .. }, Kind::Enum { symbols: known, default }, _) => {
                if !self.same_name(writer, reader) {
                    return Err(mismatch());
                }
                let (walk, texts) = enumeration(written, known, *default);
                Ok(Part::new(walk, "\"int\"", Shape::Symbols(symbols(texts.into_iter()))))
            }
            (Kind::Fixed(size), Kind::Fixed(to), _) => {
                if size != to || !self.same_name(writer, reader) {
                    return Err(mismatch());
                }
                self.fixed(*size, writer, reader, path)
            }
            (from, to, wanted) => {
                self.compare_logical(writer, reader, path)?;
                let (from_logical, to_logical) =
                    (self.writer.node(writer).logical, self.reader.node(reader).logical);
                let leaf = leaf(to, to_logical).filter(|leaf| leaf == wanted);
                let leaf = leaf.ok_or_else(mismatch)?;
                primitive(from, from_logical, to_logical, leaf).ok_or_else(mismatch)
            }
        }
    }

    fn mismatch(&self, writer: NodeId, reader: NodeId, path: &Path<'_>) -> String {
        path.error(format!(
            "was written as {}, which cannot be read as {}",
            self.writer.describe(writer),
            self.reader.describe(reader)
        ))
    }

    /// By the specification, names count without their namespace.
    fn same_name(&self, writer: NodeId, reader: NodeId) -> bool {
        match (&self.writer.node(writer).name, &self.reader.node(reader).name) {
            (Some(written), Some(read)) => {
                written.last() == read.last()
                    || read.aliases.iter().any(|alias| last_part(alias) == written.last())
            }
            _ => true,
        }
    }

    /// Logical types are not part of Avro's resolution, which would read a date as a time, or 1.50 as 15.0.
    fn compare_logical(&self, writer: NodeId, reader: NodeId, path: &Path<'_>) -> Result<(), String> {
        let fits = match (self.writer.node(writer).logical, self.reader.node(reader).logical) {
            (None, _) | (_, None) => true,
            (Some(Logical::Decimal { scale, .. }), Some(Logical::Decimal { scale: to, .. })) => scale == to,
            (Some(Logical::Timestamp { .. }), Some(Logical::Timestamp { .. })) => true,
            (Some(written), Some(read)) => written == read,
        };
        if fits { Ok(()) } else { Err(self.mismatch(writer, reader, path)) }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!(r#""name":"n{}""#, self.names)
    }

    fn nothing(&mut self) -> String {
        format!(r#"{{"type":"record",{},{NO_FIELDS}}}"#, self.name())
    }

    fn fixed(
        &mut self,
        size: usize,
        writer: NodeId,
        reader: NodeId,
        path: &Path<'_>,
    ) -> Result<Part, String> {
        self.compare_logical(writer, reader, path)?;
        if let Some(Logical::Decimal { precision, scale }) = self.reader.node(reader).logical {
            let written = format!(
                r#"{{"type":"fixed",{},"size":{size},"logicalType":"decimal","precision":{precision},"scale":{scale}}}"#,
                self.name()
            );
            let walk = Walk::Decimal { size: Some(size), limit: 10i128.pow(precision.into()) };
            return Ok(Part::new(walk, written, Shape::Same));
        }
        if size == 0 {
            return Ok(Part::new(Walk::Nothing, self.nothing(), Shape::Empty));
        }
        let written = format!(r#"{{"type":"fixed",{},"size":{size}}}"#, self.name());
        Ok(Part { width: size, ..Part::new(Walk::Sized(size), written, Shape::Fixed) })
    }

    fn record(
        &mut self,
        written: &[Field],
        fields: &[Field],
        wanted: &Fields,
        path: &Path<'_>,
    ) -> Result<Part, String> {
        // The reader's fields that are wanted: where in the writer's record they are, by name or else by alias.
        let mut places: Vec<(&Field, Option<usize>)> = Vec::with_capacity(wanted.len());
        for name in wanted.iter().map(|field| field.name()) {
            let field = fields.iter().find(|field| field.name == *name);
            let field = field.ok_or_else(|| path.below(name).error("is not in the reader's schema"))?;
            places.push((field, written.iter().position(|written| written.name == *name)));
        }
        for index in 0..places.len() {
            if let (field, None) = places[index] {
                let by_alias = written.iter().position(|written| {
                    field.aliases.contains(&written.name)
                        && !fields.iter().any(|other| other.name == written.name)
                });
                if by_alias.is_some() && !places.iter().any(|(_, taken)| *taken == by_alias) {
                    places[index].1 = by_alias;
                }
            }
        }
        let mut walks = Vec::with_capacity(written.len());
        let mut kept = Vec::new();
        let mut width = 0;
        let mut sources: Vec<Option<Source>> = places.iter().map(|_| None).collect();
        for (index, from) in written.iter().enumerate() {
            let Some(place) = places.iter().position(|(_, at)| *at == Some(index)) else {
                walks.push((from.name.clone(), Walk::Dropped(Box::new(self.skip(from.node)))));
                continue;
            };
            let to = places[place].0;
            let part = self.resolve(from.node, to.node, wanted[place].data_type(), &path.below(&to.name))?;
            walks.push((to.name.clone(), part.walk));
            width += part.width;
            sources[place] = Some(Source::Written(kept.len(), part.shape));
            kept.push(format!(r#"{{"name":"f{}","type":{}}}"#, kept.len(), part.written));
        }
        let sources: Result<Vec<Source>, String> = sources
            .into_iter()
            .zip(&places)
            .zip(wanted)
            .map(|((source, (field, _)), wanted)| match (source, &field.default) {
                (Some(source), _) => Ok(source),
                (None, Some(default)) => {
                    let path = path.below(&field.name);
                    constant(self.reader, field.node, default, wanted.data_type(), &path)
                        .map(Source::Constant)
                }
                (None, None) => Err(path
                    .below(&field.name)
                    .error("is not in the writer's schema, and has no default in the reader's")),
            })
            .collect();
        let written = format!(r#"{{"type":"record",{},"fields":[{}]}}"#, self.name(), kept.join(","));
        Ok(Part { walk: Walk::Record(walks), written, shape: Shape::Struct(wanted.clone(), sources?), width })
    }

    /// Any type, read by a union: its branch of the same type, or else the first that takes it.
    fn read_union(
        &mut self,
        writer: NodeId,
        reader: NodeId,
        branches: &[NodeId],
        wanted: &DataType,
        path: &Path<'_>,
    ) -> Result<Part, String> {
        if let Kind::Null = self.writer.kind(writer) {
            return if branches.iter().any(|&branch| matches!(self.reader.kind(branch), Kind::Null)) {
                Ok(Part::new(Walk::Nothing, "\"null\"", Shape::Null(wanted.clone())))
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
                        let Ok(full) = super::types::data_type_of(self.reader, values[index]) else {
                            continue;
                        };
                        if self.resolve(writer, values[index], &full, &path.below(&name)).is_err() {
                            continue;
                        }
                        let walk = Walk::Dropped(Box::new(self.skip(writer)));
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
    fn written_union(
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
                    Part { written: if is_null { "\"null\"".to_owned() } else { part.written }, ..part }
                }
                Err(reason) => {
                    error = error.or(Some(reason).filter(|_| !is_null));
                    let what = self.writer.describe(branch);
                    let walk =
                        Walk::Refused(format!("is {what}, which the reader's schema has no place for"));
                    let written = if is_null { "\"null\"".to_owned() } else { self.nothing() };
                    Part::new(walk, written, Shape::Null(wanted.clone()))
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
        Ok(self.dense(parts, null, wanted))
    }

    /// A union with one branch besides null, or with one alone: arrow-avro makes a column with nulls of it.
    fn nullable(&mut self, mut parts: Vec<Part>, null: Option<usize>, wanted: &DataType) -> Part {
        if parts.iter().any(|part| part.width > WIDEST_NULL) && null.is_some() {
            return self.dense(parts, null, wanted);
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
    fn dense(&mut self, parts: Vec<Part>, null: Option<usize>, wanted: &DataType) -> Part {
        let (mut walks, mut written, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, part) in parts.into_iter().enumerate() {
            walks.push(part.walk);
            if Some(index) == null {
                written.push(part.written);
                shapes.push(Shape::Null(wanted.clone()));
            } else {
                // In a record, because two branches may have become one type (an int that is read as long).
                let field = format!(r#"{{"name":"v","type":{}}}"#, part.written);
                written.push(format!(r#"{{"type":"record",{},"fields":[{field}]}}"#, self.name()));
                shapes.push(Shape::Only(Box::new(part.shape)));
            }
        }
        // A branch more, that no record has: null for arrow-avro to put where a record around the union is null, and in a
        // union of two branches anything, so that it does not make a column with nulls.
        written.push(if null.is_none() { "\"null\"" } else { "\"boolean\"" }.to_owned());
        let written = format!("[{}]", written.join(","));
        Part::new(Walk::Union(walks), written, Shape::Union(wanted.clone(), shapes))
    }

    /// How to pass over a value that nobody wants.
    fn skip(&mut self, id: NodeId) -> Walk {
        match self.writer.kind(id) {
            Kind::Null => Walk::Nothing,
            Kind::Boolean => Walk::Sized(1),
            Kind::Int => Walk::Int,
            Kind::Long => Walk::Long,
            Kind::Float => Walk::Sized(4),
            Kind::Double => Walk::Sized(8),
            Kind::Bytes | Kind::String => Walk::Bytes,
            Kind::Fixed(size) => Walk::Sized(*size),
            Kind::Enum { symbols, .. } => Walk::Enum(vec![None; symbols.len()]),
            Kind::Array(item) => Walk::Array {
                item: Box::new(self.skip(*item)),
                may_be_empty: self.writer.may_be_empty(*item),
                skip: true,
            },
            Kind::Map(value) => Walk::Map { value: Box::new(self.skip(*value)), skip: true },
            Kind::Union(branches) => Walk::Union(branches.iter().map(|&branch| self.skip(branch)).collect()),
            Kind::Record(fields) => {
                if let Some(&index) = self.shared.get(&id) {
                    return Walk::Shared(index);
                }
                let index = self.walks.len();
                self.shared.insert(id, index);
                self.walks.push(Walk::Nothing);
                let walks = fields.iter().map(|field| (field.name.clone(), self.skip(field.node))).collect();
                self.walks[index] = Walk::Record(walks);
                Walk::Shared(index)
            }
        }
    }
}

/// What each of the writer's symbols is read as.
fn enumeration(written: &[String], known: &[String], default: Option<usize>) -> (Walk, Vec<String>) {
    let read = |symbol: &String| {
        if known.contains(symbol) { Some(symbol.clone()) } else { default.map(|at| known[at].clone()) }
    };
    let refused = written.iter().map(|symbol| match read(symbol) {
        Some(_) => None,
        None => Some(format!("is the symbol {symbol:?}, which the reader's enum has not")),
    });
    (Walk::Enum(refused.collect()), written.iter().map(|symbol| read(symbol).unwrap_or_default()).collect())
}

/// A number, text or bytes, as `to`; None if it cannot be.
fn primitive(from: &Kind, written: Option<Logical>, read: Option<Logical>, to: DataType) -> Option<Part> {
    let renamed = |walk, written| Some(Part::new(walk, written, Shape::Renamed(to.clone())));
    match (from, &to) {
        (Kind::Boolean, DataType::Boolean) => Some(Part::new(Walk::Boolean, "\"boolean\"", Shape::Same)),
        (Kind::Int, DataType::Int32) => Some(Part::new(Walk::Int, "\"int\"", Shape::Same)),
        (Kind::Int, DataType::Date32) => renamed(Walk::Int, "\"int\""),
        // Written the same, whatever their size.
        (Kind::Int, DataType::Int64) => Some(Part::new(Walk::Int, "\"long\"", Shape::Same)),
        (Kind::Long, DataType::Int64) => Some(Part::new(Walk::Long, "\"long\"", Shape::Same)),
        (Kind::Int | Kind::Long, DataType::Timestamp(_, _)) => {
            let walk = if matches!(from, Kind::Int) { Walk::Int } else { Walk::Long };
            let unit = match (written, read) {
                (Some(Logical::Timestamp { unit, .. }), _) | (_, Some(Logical::Timestamp { unit, .. })) => {
                    unit
                }
                _ => return None,
            };
            match unit {
                Unit::Millis => {
                    let walk = if matches!(from, Kind::Int) { walk } else { Walk::Scaled(1000) };
                    Some(Part::new(walk, "\"long\"", Shape::Times(1000, to)))
                }
                Unit::Micros => renamed(walk, "\"long\""),
                Unit::Nanos => Some(Part::new(walk, "\"long\"", Shape::Divided(1000, to))),
            }
        }
        (Kind::Int, DataType::Float32 | DataType::Float64) => {
            Some(Part::new(Walk::Int, "\"int\"", Shape::Cast(to)))
        }
        (Kind::Long, DataType::Float32 | DataType::Float64) => {
            Some(Part::new(Walk::Long, "\"long\"", Shape::Cast(to)))
        }
        (Kind::Float, DataType::Float32) => Some(Part::new(Walk::Sized(4), "\"float\"", Shape::Same)),
        (Kind::Float, DataType::Float64) => Some(Part::new(Walk::Sized(4), "\"float\"", Shape::Cast(to))),
        (Kind::Double, DataType::Float64) => Some(Part::new(Walk::Sized(8), "\"double\"", Shape::Same)),
        (Kind::String | Kind::Bytes, DataType::Utf8) => {
            Some(Part::new(Walk::Text, "\"string\"", Shape::Same))
        }
        (Kind::String | Kind::Bytes, DataType::Binary) => {
            Some(Part::new(Walk::Bytes, "\"bytes\"", Shape::Same))
        }
        (Kind::String | Kind::Bytes, DataType::Decimal128(precision, scale)) => {
            let walk = Walk::Decimal { size: None, limit: 10i128.pow((*precision).into()) };
            let written = format!(
                r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#
            );
            Some(Part::new(walk, written, Shape::Same))
        }
        _ => None,
    }
}
