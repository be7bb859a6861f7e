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
use super::types::{MOST_TYPES, Path, leaf};
use super::walk::Walk;

/// A record without fields: takes no bytes, whatever it stands for.
const NO_FIELDS: &str = r#""fields":[]"#;

pub struct Part {
    pub walk: Walk,
    /// The schema for arrow-avro, as JSON.
    pub written: String,
    pub shape: Shape,
    /// Bytes of fixed values in each, null or not.
    pub width: usize,
}

impl Part {
    pub fn new(walk: Walk, written: impl Into<String>, shape: Shape) -> Self {
        Part { walk, written: written.into(), shape, width: 0 }
    }
}

pub struct Resolver<'a> {
    pub writer: &'a Schema,
    pub reader: &'a Schema,
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
            (Kind::Null, Kind::Null, _) => Ok(self.null(wanted)),
            (Kind::Record(written), Kind::Record(fields), DataType::Struct(wanted)) => {
                self.record(written, fields, wanted, path)
            }
            (Kind::Array(item), Kind::Array(to), DataType::List(field)) => {
                let part = self.resolve(*item, *to, field.data_type(), &path.below("element"))?;
                let is_empty = self.writer.is_empty(*item);
                Ok(Part::new(
                    Walk::Array { item: Box::new(part.walk), is_empty, skip: false },
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

    pub fn mismatch(&self, writer: NodeId, reader: NodeId, path: &Path<'_>) -> String {
        path.error(format!(
            "was written as {}, which cannot be read as {}",
            self.writer.describe(writer),
            self.reader.describe(reader)
        ))
    }

    /// By the specification, names count without their namespace.
    pub fn same_name(&self, writer: NodeId, reader: NodeId) -> bool {
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

    pub fn name(&mut self) -> String {
        self.names += 1;
        format!(r#""name":"n{}""#, self.names)
    }

    /// Not arrow-avro's own null, whose column is no child for its structs.
    pub fn null(&mut self, wanted: &DataType) -> Part {
        Part::new(Walk::Nothing, self.nothing(), Shape::Null(wanted.clone()))
    }

    pub fn nothing(&mut self) -> String {
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
        let by_name: HashMap<&str, &Field> =
            fields.iter().map(|field| (field.name.as_str(), field)).collect();
        let in_writer: HashMap<&str, usize> =
            written.iter().enumerate().map(|(at, field)| (field.name.as_str(), at)).collect();
        // The reader's fields that are wanted, and where in the writer's record they are.
        let mut places: Vec<(&Field, Option<usize>)> = Vec::with_capacity(wanted.len());
        // And which of them a field of the writer's goes to.
        let mut taken: HashMap<usize, usize> = HashMap::new();
        for (place, name) in wanted.iter().map(|field| field.name().as_str()).enumerate() {
            let field = by_name.get(name);
            let field = field.ok_or_else(|| path.below(name).error("is not in the reader's schema"))?;
            // An alias never takes a field that another goes by the name of.
            let unnamed = |alias: &&str| !by_name.contains_key(alias);
            let mut names =
                std::iter::once(name).chain(field.aliases.iter().map(String::as_str).filter(unnamed));
            let at = names.find_map(|name| in_writer.get(name).copied().filter(|at| !taken.contains_key(at)));
            if let Some(at) = at {
                taken.insert(at, place);
            }
            places.push((field, at));
        }
        let mut walks = Vec::with_capacity(written.len());
        let mut kept = Vec::new();
        let mut width = 0;
        let mut sources: Vec<Option<Source>> = places.iter().map(|_| None).collect();
        for (index, from) in written.iter().enumerate() {
            let Some(&place) = taken.get(&index) else {
                let skipped = (from.name.clone(), self.skip(from.node));
                match walks.last_mut() {
                    Some((_, Walk::Dropped(fields))) => fields.push(skipped),
                    _ => walks.push((String::new(), Walk::Dropped(vec![skipped]))),
                }
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

    /// How to pass over a value that nobody wants.
    pub fn skip(&mut self, id: NodeId) -> Walk {
        if self.writer.is_empty(id) {
            // Not only for speed: thirty records, each with two fields of the one before, take a billion steps.
            return Walk::Nothing;
        }
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
                is_empty: self.writer.is_empty(*item),
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
pub fn primitive(from: &Kind, written: Option<Logical>, read: Option<Logical>, to: DataType) -> Option<Part> {
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
