//! The Arrow type of a column for an Avro schema, as in Spark's `from_avro`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::schema::{DEEPEST, Kind, Logical, NodeId, Schema};

/// The most types of a schema, all references followed. Without a limit, thirty nested records with two fields each
/// have a billion.
pub const MOST_TYPES: usize = 20_000;

/// A path in a schema, for errors: `field a.b.element`.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    above: Option<&'a Path<'a>>,
    name: &'a str,
    depth: usize,
}

impl<'a> Path<'a> {
    pub const ROOT: Path<'static> = Path { above: None, name: "", depth: 0 };

    pub fn below(&'a self, name: &'a str) -> Path<'a> {
        Path { above: Some(self), name, depth: self.depth + 1 }
    }

    pub fn too_deep(&self) -> bool {
        self.depth > DEEPEST
    }

    pub fn error(&self, what: impl std::fmt::Display) -> String {
        let mut names = Vec::new();
        let mut path = self;
        while let Some(above) = path.above {
            names.push(path.name);
            path = above;
        }
        names.reverse();
        if names.is_empty() { what.to_string() } else { format!("field {}: {what}", names.join(".")) }
    }
}

/// How a union is read.
pub enum Union {
    /// Null is its only branch.
    Null,
    /// One type, or null.
    One(NodeId),
    /// Two number types: the wider one.
    Wider(DataType),
    /// A struct with a member for each branch that is not null.
    Members(Vec<NodeId>),
}

pub fn union(schema: &Schema, branches: &[NodeId]) -> Union {
    let mut values: Vec<NodeId> = branches.to_vec();
    values.retain(|&branch| !matches!(schema.kind(branch), Kind::Null));
    let kinds: Vec<_> = values.iter().map(|&branch| schema.kind(branch)).collect();
    match (values.as_slice(), kinds.as_slice()) {
        ([], _) => Union::Null,
        ([one], _) => Union::One(*one),
        (_, [Kind::Int, Kind::Long] | [Kind::Long, Kind::Int]) => Union::Wider(DataType::Int64),
        (_, [Kind::Float, Kind::Double] | [Kind::Double, Kind::Float]) => Union::Wider(DataType::Float64),
        _ => Union::Members(values),
    }
}

pub fn member(index: usize) -> String {
    format!("member{index}")
}

pub fn data_type(schema: &Schema) -> Result<DataType, String> {
    data_type_of(schema, schema.root)
}

pub fn data_type_of(schema: &Schema, id: NodeId) -> Result<DataType, String> {
    Types { schema, above: Vec::new(), count: 0 }.of(id, &Path::ROOT)
}

/// The type of a value that is not a record, an array, a map or a union.
pub fn leaf(kind: &Kind, logical: Option<Logical>) -> Option<DataType> {
    Some(match (kind, logical) {
        (_, Some(Logical::Date)) => DataType::Date32,
        (_, Some(Logical::Timestamp { local, .. })) => {
            DataType::Timestamp(TimeUnit::Microsecond, if local { None } else { Some("UTC".into()) })
        }
        (_, Some(Logical::Decimal { precision, scale })) => DataType::Decimal128(precision, scale as i8),
        (Kind::Null, _) => DataType::Null,
        (Kind::Boolean, _) => DataType::Boolean,
        (Kind::Int, _) => DataType::Int32,
        (Kind::Long, _) => DataType::Int64,
        (Kind::Float, _) => DataType::Float32,
        (Kind::Double, _) => DataType::Float64,
        (Kind::Bytes | Kind::Fixed(_), _) => DataType::Binary,
        (Kind::String | Kind::Enum { .. }, _) => DataType::Utf8,
        (Kind::Record(_) | Kind::Array(_) | Kind::Map(_) | Kind::Union(_), _) => return None,
    })
}

struct Types<'a> {
    schema: &'a Schema,
    above: Vec<NodeId>,
    count: usize,
}

impl Types<'_> {
    fn of(&mut self, id: NodeId, path: &Path<'_>) -> Result<DataType, String> {
        self.count += 1;
        if self.count > MOST_TYPES {
            return Err(format!("has more than {MOST_TYPES} types, all references followed"));
        }
        if path.too_deep() {
            return Err(path.error(format!("is nested more than {DEEPEST} types deep")));
        }
        let node = self.schema.node(id);
        if let Some(leaf) = leaf(&node.kind, node.logical) {
            return Ok(leaf);
        }
        Ok(match &node.kind {
            Kind::Record(fields) => {
                if self.above.contains(&id) {
                    let name = node.name.as_ref().map_or("", |name| name.full.as_str());
                    return Err(path.error(format!("record {name} contains itself, which no Spark type can")));
                }
                self.above.push(id);
                let fields: Result<Fields, String> = fields
                    .iter()
                    .map(|field| {
                        Ok(Field::new(&field.name, self.of(field.node, &path.below(&field.name))?, true))
                    })
                    .collect();
                self.above.pop();
                DataType::Struct(fields?)
            }
            Kind::Array(items) => {
                let element = self.of(*items, &path.below("element"))?;
                DataType::List(Arc::new(Field::new("element", element, true)))
            }
            Kind::Map(values) => {
                let value = self.of(*values, &path.below("value"))?;
                let entries =
                    vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, true)];
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries.into()), false)), false)
            }
            Kind::Union(branches) => match union(self.schema, branches) {
                Union::Null => DataType::Null,
                Union::One(branch) => self.of(branch, path)?,
                Union::Wider(wider) => wider,
                Union::Members(branches) => {
                    let fields: Result<Fields, String> = branches
                        .iter()
                        .enumerate()
                        .map(|(index, &branch)| {
                            let name = member(index);
                            Ok(Field::new(&name, self.of(branch, &path.below(&name))?, true))
                        })
                        .collect();
                    DataType::Struct(fields?)
                }
            },
            _ => DataType::Null,
        })
    }
}

/// Checks that `wanted` is `full`, or `full` with fields left out or reordered.
pub fn check_part(full: &DataType, wanted: &DataType, path: &Path<'_>) -> Result<(), String> {
    match (full, wanted) {
        (DataType::Struct(full), DataType::Struct(wanted)) => {
            let by_name: HashMap<&str, &Field> =
                full.iter().rev().map(|field| (field.name().as_str(), field.as_ref())).collect();
            wanted.iter().try_for_each(|field| {
                let path = path.below(field.name());
                let whole = by_name.get(field.name().as_str());
                check_field(whole.ok_or_else(|| path.error("is not in the reader's schema"))?, field, &path)
            })
        }
        (DataType::List(full), DataType::List(wanted)) => check_field(full, wanted, &path.below("element")),
        (DataType::Map(full, _), DataType::Map(wanted, false)) => {
            match (full.data_type(), wanted.data_type()) {
                (DataType::Struct(full), DataType::Struct(entries))
                    if entries.len() == 2 && entries[0].data_type() == full[0].data_type() =>
                {
                    check_field(&full[1], &entries[1], &path.below("value"))
                }
                _ => Err(path.error(format!("is a {}, not a {wanted}", DataType::Map(full.clone(), false)))),
            }
        }
        (full, wanted) if full == wanted => Ok(()),
        (full, wanted) => Err(path.error(format!("is of type {full}, not {wanted}"))),
    }
}

fn check_field(full: &Field, wanted: &Field, path: &Path<'_>) -> Result<(), String> {
    if !wanted.is_nullable() {
        return Err(path.error("has to be nullable: it is null in a bad record"));
    }
    check_part(full.data_type(), wanted.data_type(), path)
}
