//! Resolves the writer's schema against the reader's, by Avro's rules of schema resolution, once per pair of schemas.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Fields};

use super::defaults::encode_default;
use super::fill::{self, Decimal, Fill, Record, Symbols, Width};
use super::schema::{Field, Kind, Logical, NodeId, Schema, last_part};
use super::schema_budget::{STEP, SchemaBudget};
use super::skip::Skip;
use super::types::{Path, data_type_of, leaf};

pub struct Resolver<'a> {
    pub writer: &'a Schema,
    pub reader: &'a Schema,
    pub budget: &'a mut SchemaBudget,
    /// The skipped records in index order, and the index of each.
    skipped: Vec<NodeId>,
    places: HashMap<NodeId, usize>,
    /// By the node of the writer and the node of the reader.
    enums: HashMap<(NodeId, NodeId), Arc<Symbols>>,
    /// By the node of the reader.
    types: HashMap<NodeId, Option<DataType>>,
    /// For each union of the reader: its branches by type and name, the first if there are several.
    pub branches: HashMap<NodeId, HashMap<(&'static str, &'a str), usize>>,
}

impl<'a> Resolver<'a> {
    pub fn new(writer: &'a Schema, reader: &'a Schema, budget: &'a mut SchemaBudget) -> Self {
        let (skipped, places) = (Vec::new(), HashMap::new());
        let (enums, types, branches) = (HashMap::new(), HashMap::new(), HashMap::new());
        Resolver { writer, reader, budget, skipped, places, enums, types, branches }
    }

    /// The skips of the records that [`Skip::Shared`] refers to. Not built by recursion when they are met: a chain of
    /// records may be as long as the schema.
    pub fn finish(mut self) -> Result<Vec<Skip>, String> {
        let mut shared = Vec::new();
        while let Some(&id) = self.skipped.get(shared.len()) {
            let Kind::Record(fields) = self.writer.kind(id) else { unreachable!("only records are shared") };
            let mut skips = Vec::with_capacity(fields.len());
            for field in fields {
                self.budget.spend(STEP + field.name.len())?;
                skips.push((field.name.clone(), self.skip(field.node)?));
            }
            shared.push(Skip::Record(skips));
        }
        Ok(shared)
    }

    /// The full type of a node of the reader, if it has one.
    pub fn type_of(&mut self, id: NodeId) -> Option<DataType> {
        self.types.entry(id).or_insert_with(|| data_type_of(self.reader, id).ok()).clone()
    }

    /// `wanted`: the type of `reader`, or a part of it.
    pub fn resolve(
        &mut self,
        writer: NodeId,
        reader: NodeId,
        wanted: &DataType,
        path: &Path<'_>,
    ) -> Result<Fill, String> {
        self.budget.spend(STEP + self.reader.aliases(reader).len())?;
        if let Kind::Union(branches) = self.writer.kind(writer) {
            return self.written_union(branches, reader, wanted, path);
        }
        if let Kind::Union(branches) = self.reader.kind(reader) {
            return self.read_union(writer, reader, branches, wanted, path);
        }
        let mismatch = || self.mismatch(writer, reader, path);
        match (self.writer.kind(writer), self.reader.kind(reader), wanted) {
            (Kind::Null, Kind::Null, _) => Ok(Fill::Null),
            (Kind::Record(written), Kind::Record(fields), DataType::Struct(wanted)) => {
                self.record(written, fields, wanted, path)
            }
            (Kind::Array(item), Kind::Array(to), DataType::List(field)) => {
                let item_fill = self.resolve(*item, *to, field.data_type(), &path.below("element"))?;
                Ok(Fill::List { item: Box::new(item_fill), is_empty: self.writer.is_empty(*item) })
            }
            (Kind::Map(value), Kind::Map(to), DataType::Map(field, _)) => {
                let DataType::Struct(entries) = field.data_type() else { return Err(mismatch()) };
                let value = self.resolve(*value, *to, entries[1].data_type(), &path.below("value"))?;
                Ok(Fill::Map(Box::new(value)))
            }
            (Kind::Enum { symbols: written, .. }, Kind::Enum { symbols: known, default }, _) => {
                if !self.same_name(writer, reader) {
                    return Err(mismatch());
                }
                if let Some(symbols) = self.enums.get(&(writer, reader)) {
                    return Ok(Fill::Enum(Arc::clone(symbols)));
                }
                self.budget.spend(written.iter().chain(known).map(|symbol| STEP + symbol.len()).sum())?;
                let symbols = Arc::new(enumeration(written, known, *default));
                self.enums.insert((writer, reader), Arc::clone(&symbols));
                Ok(Fill::Enum(symbols))
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
                primitive(from, from_logical, to_logical, &leaf).ok_or_else(mismatch)
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

    /// By the specification, names are compared without their namespace.
    pub fn same_name(&self, writer: NodeId, reader: NodeId) -> bool {
        match (&self.writer.node(writer).name, &self.reader.node(reader).name) {
            (Some(written), Some(read)) => {
                written.last() == read.last()
                    || read.aliases.iter().any(|alias| last_part(alias) == written.last())
            }
            _ => true,
        }
    }

    /// Avro's resolution ignores logical types, and would read a date as a time, or 1.50 as 15.0.
    fn compare_logical(&self, writer: NodeId, reader: NodeId, path: &Path<'_>) -> Result<(), String> {
        let fits = match (self.writer.node(writer).logical, self.reader.node(reader).logical) {
            (None, _) | (_, None) => true,
            (Some(Logical::Decimal { scale, .. }), Some(Logical::Decimal { scale: to, .. })) => scale == to,
            (Some(Logical::Timestamp { .. }), Some(Logical::Timestamp { .. })) => true,
            (Some(written), Some(read)) => written == read,
        };
        if fits { Ok(()) } else { Err(self.mismatch(writer, reader, path)) }
    }

    fn fixed(&self, size: usize, writer: NodeId, reader: NodeId, path: &Path<'_>) -> Result<Fill, String> {
        self.compare_logical(writer, reader, path)?;
        Ok(match self.reader.node(reader).logical {
            Some(Logical::Decimal { precision, .. }) => decimal(Some(size), precision),
            _ => Fill::Fixed(size),
        })
    }

    fn record(
        &mut self,
        written: &[Field],
        fields: &[Field],
        wanted: &Fields,
        path: &Path<'_>,
    ) -> Result<Fill, String> {
        let aliases = fields.iter().map(|field| field.aliases.len()).sum::<usize>();
        self.budget.spend(STEP * (written.len() + fields.len() + aliases))?;
        let by_name: HashMap<&str, &Field> =
            fields.iter().map(|field| (field.name.as_str(), field)).collect();
        let in_writer: HashMap<&str, usize> =
            written.iter().enumerate().map(|(at, field)| (field.name.as_str(), at)).collect();
        // The selected fields of the reader, and their index in the writer's record.
        let mut places: Vec<(&Field, Option<usize>)> = Vec::with_capacity(wanted.len());
        // And the selected field for a field of the writer.
        let mut taken: HashMap<usize, usize> = HashMap::new();
        for (place, name) in wanted.iter().map(|field| field.name().as_str()).enumerate() {
            let field = by_name.get(name);
            let field = field.ok_or_else(|| path.below(name).error("is not in the reader's schema"))?;
            // An alias does not match a field of the writer that has the name of another field of the reader.
            let unnamed = |alias: &&str| !by_name.contains_key(alias);
            let mut names =
                std::iter::once(name).chain(field.aliases.iter().map(String::as_str).filter(unnamed));
            let at = names.find_map(|name| in_writer.get(name).copied().filter(|at| !taken.contains_key(at)));
            if let Some(at) = at {
                taken.insert(at, place);
            }
            places.push((field, at));
        }
        let mut record = Record { fields: Vec::new(), names: Vec::new(), missing: Vec::new() };
        for (index, from) in written.iter().enumerate() {
            self.budget.spend(from.name.len())?;
            let Some(&place) = taken.get(&index) else {
                record.fields.push(fill::Field::Unwanted(self.skip(from.node)?));
                record.names.push(from.name.clone());
                continue;
            };
            let to = places[place].0;
            let fill = self.resolve(from.node, to.node, wanted[place].data_type(), &path.below(&to.name))?;
            record.fields.push(fill::Field::Wanted(place, fill));
            record.names.push(to.name.clone());
        }
        for (place, (field, at)) in places.iter().enumerate() {
            if at.is_some() {
                continue;
            }
            let path = path.below(&field.name);
            let Some(default) = &field.default else {
                return Err(path.error("is not in the writer's schema, and has no default in the reader's"));
            };
            let wanted = wanted[place].data_type();
            let default = encode_default(self.reader, field.node, default, wanted, &path, self.budget)?;
            record.missing.push((place, default));
        }
        Ok(Fill::Record(Box::new(record)))
    }

    /// How to skip a value that is not selected.
    pub fn skip(&mut self, id: NodeId) -> Result<Skip, String> {
        self.budget.spend(STEP)?;
        if self.writer.is_empty(id) {
            // Not only for speed: thirty records, each with two fields of the record before, take a billion steps.
            return Ok(Skip::Nothing);
        }
        Ok(match self.writer.kind(id) {
            Kind::Null => Skip::Nothing,
            Kind::Boolean => Skip::Sized(1),
            Kind::Int => Skip::Int,
            Kind::Long => Skip::Long,
            Kind::Float => Skip::Sized(4),
            Kind::Double => Skip::Sized(8),
            Kind::Bytes | Kind::String => Skip::Bytes,
            Kind::Fixed(size) => Skip::Sized(*size),
            Kind::Enum { symbols, .. } => Skip::Enum(symbols.len()),
            Kind::Array(item) => {
                Skip::Array { item: Box::new(self.skip(*item)?), is_empty: self.writer.is_empty(*item) }
            }
            Kind::Map(value) => Skip::Map(Box::new(self.skip(*value)?)),
            Kind::Union(branches) => {
                Skip::Union(branches.iter().map(|&branch| self.skip(branch)).collect::<Result<_, _>>()?)
            }
            Kind::Record(_) => {
                let index = *self.places.entry(id).or_insert_with(|| {
                    self.skipped.push(id);
                    self.skipped.len() - 1
                });
                Skip::Shared(index)
            }
        })
    }
}

/// The text for each symbol of the writer.
fn enumeration(written: &[String], known: &[String], default: Option<usize>) -> Symbols {
    let all: HashSet<&String> = known.iter().collect();
    let read = |symbol: &String| {
        let text = if all.contains(symbol) { Some(symbol) } else { default.map(|at| &known[at]) };
        match text {
            Some(text) => Ok(text.as_str().into()),
            None => Err(format!("is the symbol {symbol:?}, which the reader's enum does not have")),
        }
    };
    written.iter().map(read).collect()
}

fn decimal(size: Option<usize>, precision: u8) -> Fill {
    Fill::Decimal(Box::new(Decimal { size, limit: 10i128.pow(precision.into()) }))
}

/// How to read a number, string or bytes as `to`. None if that is not possible.
pub fn primitive(
    from: &Kind,
    written: Option<Logical>,
    read: Option<Logical>,
    to: &DataType,
) -> Option<Fill> {
    let width = if matches!(from, Kind::Int) { Width::Int } else { Width::Long };
    Some(match (from, to) {
        (Kind::Boolean, DataType::Boolean) => Fill::Boolean,
        (Kind::Int, DataType::Int32 | DataType::Date32) => Fill::Int,
        (Kind::Long, DataType::Int64) => Fill::Long,
        (Kind::Int | Kind::Long, DataType::Timestamp(_, _)) => match (written, read) {
            (Some(Logical::Timestamp { unit, .. }), _) | (_, Some(Logical::Timestamp { unit, .. })) => {
                Fill::Timestamp(width, unit)
            }
            _ => return None,
        },
        (Kind::Int, DataType::Int64) => Fill::Widened(width),
        (Kind::Int | Kind::Long, DataType::Float32 | DataType::Float64) => Fill::Widened(width),
        (Kind::Float, DataType::Float32) => Fill::Float,
        (Kind::Float, DataType::Float64) => Fill::FloatAsDouble,
        (Kind::Double, DataType::Float64) => Fill::Double,
        (Kind::String | Kind::Bytes, DataType::Utf8) => Fill::Text,
        (Kind::String | Kind::Bytes, DataType::Binary) => Fill::Bytes,
        (Kind::String | Kind::Bytes, DataType::Decimal128(precision, _)) => decimal(None, *precision),
        _ => return None,
    })
}
