//! How columns are written by an Avro schema: found before the first row.

use std::collections::HashMap;

use arrow_schema::{DataType, Fields, TimeUnit};

use super::defaults::{encode_value, long};
use super::encoder::{Field, Plan};
use super::schema::{self, Kind, Logical, NodeId, Schema, Unit};
use super::schema_budget::SchemaBudget;
use super::types::{Path, Union, member, union};

/// The error names the field that does not fit.
pub fn plan(schema: &Schema, given: &DataType) -> Result<Plan, String> {
    Planner { schema, budget: SchemaBudget::default() }.plan(schema.root, given, &Path::ROOT)
}

struct Planner<'a> {
    schema: &'a Schema,
    budget: SchemaBudget,
}

impl Planner<'_> {
    fn plan(&mut self, id: NodeId, given: &DataType, path: &Path<'_>) -> Result<Plan, String> {
        if path.too_deep() {
            return Err(path.error("is nested too deeply"));
        }
        let schema = self.schema;
        let node = schema.node(id);
        if let Kind::Union(branches) = &node.kind {
            return self.union(id, branches, given, path);
        }
        let mismatch = || {
            let hint = hint(&node.kind, node.logical, given);
            path.error(format!("a column of type {given} cannot be written as {}{hint}", schema.describe(id)))
        };
        Ok(match (&node.kind, node.logical, given) {
            (_, Some(Logical::Decimal { precision, scale }), DataType::Decimal128(own, own_scale)) => {
                if i16::from(*own_scale) != i16::from(scale) || *own > precision {
                    return Err(mismatch());
                }
                let limit = 10_i128.pow(u32::from(precision));
                match node.kind {
                    Kind::Fixed(size) => Plan::DecimalFixed { limit, precision, size },
                    _ => Plan::DecimalBytes { limit, precision },
                }
            }
            (_, Some(Logical::Decimal { .. }), _) => return Err(mismatch()),
            (
                _,
                Some(Logical::Timestamp { unit, local }),
                DataType::Timestamp(TimeUnit::Microsecond, zone),
            ) if local == zone.is_none() => match unit {
                Unit::Millis => Plan::Millis,
                Unit::Micros => Plan::Micros,
                Unit::Nanos => Plan::Nanos,
            },
            (_, Some(Logical::Timestamp { .. }), _) => return Err(mismatch()),
            (_, Some(Logical::Date), DataType::Date32) => Plan::Integer,
            (_, Some(Logical::Date), _) => return Err(mismatch()),
            (Kind::Null, _, DataType::Null) => Plan::Null,
            (Kind::Boolean, _, DataType::Boolean) => Plan::Boolean,
            (Kind::Int | Kind::Long, _, DataType::Int8 | DataType::Int16 | DataType::Int32) => Plan::Integer,
            (Kind::Long, _, DataType::Int64) => Plan::Integer,
            (Kind::Float, _, DataType::Float32) => Plan::Float,
            (Kind::Double, _, DataType::Float32 | DataType::Float64) => Plan::Double,
            (Kind::String, _, DataType::Utf8) | (Kind::Bytes, _, DataType::Binary) => Plan::Bytes,
            (Kind::Fixed(size), _, DataType::Binary) => Plan::Fixed(*size),
            (Kind::Enum { symbols, .. }, _, DataType::Utf8) => Plan::Enum(
                symbols.iter().zip(0..).map(|(symbol, index)| (symbol.as_bytes().into(), index)).collect(),
            ),
            (Kind::Array(items), _, DataType::List(element)) => {
                Plan::Array(Box::new(self.plan(*items, element.data_type(), &path.below("element"))?))
            }
            (Kind::Map(values), _, DataType::Map(entries, _)) => match entries.data_type() {
                DataType::Struct(entry) if entry.len() == 2 && *entry[0].data_type() == DataType::Utf8 => {
                    Plan::Map(Box::new(self.plan(*values, entry[1].data_type(), &path.below("value"))?))
                }
                _ => return Err(path.error("the keys of an Avro map are strings")),
            },
            (Kind::Record(fields), _, DataType::Struct(columns)) => self.record(fields, columns, path)?,
            // A column without type has only nulls, which rows report.
            (_, _, DataType::Null) => Plan::Null,
            _ => return Err(mismatch()),
        })
    }

    fn record(
        &mut self,
        fields: &[schema::Field],
        columns: &Fields,
        path: &Path<'_>,
    ) -> Result<Plan, String> {
        let mut used = vec![false; columns.len()];
        let mut exact: HashMap<&str, usize> = HashMap::new();
        let mut folded: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, column) in columns.iter().enumerate() {
            exact.insert(column.name(), index);
            folded.entry(column.name().to_lowercase()).or_default().push(index);
        }
        // Names that fit exactly are taken first.
        let taken: Vec<Option<usize>> =
            fields.iter().map(|field| exact.get(field.name.as_str()).copied()).collect();
        taken.iter().flatten().for_each(|&index| used[index] = true);
        let mut plans = Vec::with_capacity(fields.len());
        for (field, taken) in fields.iter().zip(taken) {
            let path = path.below(&field.name);
            let index = match taken {
                Some(index) => Some(index),
                None => {
                    let near = folded.get(&field.name.to_lowercase());
                    let free: Vec<usize> =
                        near.into_iter().flatten().copied().filter(|&index| !used[index]).collect();
                    if free.len() > 1 {
                        return Err(path.error("two columns have this name in another case"));
                    }
                    free.first().copied()
                }
            };
            if let Some(index) = index {
                used[index] = true;
                let plan = self.plan(field.node, columns[index].data_type(), &path)?;
                plans.push(Field::Column { name: field.name.clone(), index, plan });
                continue;
            }
            plans.push(Field::Constant(self.constant(field, &path)?));
        }
        match used.iter().position(|used| !used) {
            Some(index) => Err(path
                .below(columns[index].name())
                .error("is a column that the Avro schema does not have. Drop it, or add it to the schema")),
            None => Ok(Plan::Record(plans)),
        }
    }

    /// The bytes of a field that has no column.
    fn constant(&mut self, field: &schema::Field, path: &Path<'_>) -> Result<Vec<u8>, String> {
        if let Some(default) = &field.default {
            return encode_value(self.schema, field.node, default, &mut self.budget)
                .map_err(|reason| path.error(format!("its default {reason}")));
        }
        let mut bytes = Vec::new();
        match self.schema.kind(field.node) {
            Kind::Null => return Ok(bytes),
            Kind::Union(branches) => {
                if let Some(null) = null_branch(self.schema, branches) {
                    long(null, &mut bytes);
                    return Ok(bytes);
                }
            }
            _ => {}
        }
        let kind = self.schema.describe(field.node);
        Err(path.error(format!("the Avro schema requires a {kind}, and there is no such column")))
    }

    fn union(
        &mut self,
        id: NodeId,
        branches: &[NodeId],
        given: &DataType,
        path: &Path<'_>,
    ) -> Result<Plan, String> {
        let schema = self.schema;
        let null = null_branch(schema, branches);
        let index =
            |id: NodeId| branches.iter().position(|&branch| branch == id).map_or(0, |index| index as i64);
        if *given == DataType::Null {
            return match null {
                Some(null) => Ok(Plan::Branch(null, Box::new(Plan::Null))),
                None => Ok(Plan::Null),
            };
        }
        let one = |value, plan| match null {
            Some(null) => Plan::Optional { null, value, plan: Box::new(plan) },
            None => Plan::Branch(value, Box::new(plan)),
        };
        match union(schema, branches) {
            Union::Null => Err(path.error(format!("a column of type {given} cannot be written as null"))),
            Union::One(branch) => {
                let plan = self.plan(branch, given, path)?;
                Ok(one(index(branch), plan))
            }
            Union::Wider(_) => {
                let wider = branches.iter().find(|&&id| matches!(schema.kind(id), Kind::Long | Kind::Double));
                let wider = *wider.ok_or_else(|| path.error("has no branch"))?;
                let plan = self.plan(wider, given, path)?;
                Ok(one(index(wider), plan))
            }
            Union::Members(values) => {
                if let DataType::Struct(columns) = given
                    && columns.len() == values.len()
                    && columns.iter().enumerate().all(|(at, column)| *column.name() == member(at))
                {
                    let members = values.iter().zip(columns).map(|(&branch, column)| {
                        let plan = self.plan(branch, column.data_type(), &path.below(column.name()))?;
                        Ok::<_, String>((index(branch), plan))
                    });
                    return Ok(Plan::Members { null, members: members.collect::<Result<_, _>>()? });
                }
                // One type of several: the branch that takes it.
                for branch in values {
                    if let Ok(plan) = self.plan(branch, given, path) {
                        return Ok(one(index(branch), plan));
                    }
                    self.budget.check()?;
                }
                let kind = schema.describe(id);
                Err(path.error(format!(
                    "a column of type {given} cannot be written as {kind}: it fits none of the branches, and is not \
                     a struct with a member0, member1, ... for each of them"
                )))
            }
        }
    }
}

fn null_branch(schema: &Schema, branches: &[NodeId]) -> Option<i64> {
    let found = branches.iter().position(|&branch| matches!(schema.kind(branch), Kind::Null));
    found.map(|index| index as i64)
}

/// What to do about a type that does not fit.
fn hint(kind: &Kind, logical: Option<Logical>, given: &DataType) -> &'static str {
    match (kind, logical, given) {
        (Kind::Int, None, DataType::Int64) | (Kind::Float, None, DataType::Float64) => {
            ": cast it, or choose a wider type in the schema"
        }
        (Kind::Long, None, DataType::Timestamp(..)) => {
            ": add a logical type to the schema, as timestamp-micros"
        }
        (_, Some(Logical::Timestamp { .. }), DataType::Timestamp(..)) => {
            ": local-timestamp is for timestamps without zone, timestamp for those with one"
        }
        (_, Some(Logical::Decimal { .. }), DataType::Decimal128(..)) => {
            ": cast it to a decimal of the same scale and not more digits"
        }
        _ => "",
    }
}
