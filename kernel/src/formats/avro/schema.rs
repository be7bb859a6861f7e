//! Parses an Avro schema from JSON: resolves names, recognizes logical types, and checks the rest by the specification.

use std::collections::{HashMap, HashSet};

use sonic_rs::{JsonContainerTrait, JsonValueTrait, Value};

/// Deeper schemas are refused: recursion over them must not exhaust a thread's stack.
pub const DEEPEST: usize = 64;

/// The limit of nested brackets in the JSON: a type takes at most four, and defaults have some. Do not leave this check
/// to the JSON parser: it recurses without a limit, and a hundred thousand brackets end the process.
const DEEPEST_JSON: usize = 8 * DEEPEST;

/// The most types, references not followed. No schema written by hand has more.
const MOST_NODES: usize = 100_000;

/// The most bytes of all full names: a namespace is written once, and is part of the full name of each type inside it.
const MOST_NAMES: usize = 16 << 20;

/// The number of branches of a union that an error shows.
const SHOWN: usize = 5;

/// The index of a [`Node`] in its schema. Not a tree of boxes, because named types may refer to themselves.
pub type NodeId = usize;

pub struct Schema {
    nodes: Vec<Node>,
    /// For each node, whether its values take no bytes.
    empty: Vec<bool>,
    pub root: NodeId,
}

pub struct Node {
    pub kind: Kind,
    pub logical: Option<Logical>,
    /// The name of a record, an enum or a fixed.
    pub name: Option<Name>,
}

pub struct Name {
    /// The full name, with the namespace.
    pub full: String,
    pub aliases: Vec<String>,
}

#[derive(Debug)]
pub enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum { symbols: Vec<String>, default: Option<usize> },
    Record(Vec<Field>),
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
}

#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub aliases: Vec<String>,
    pub node: NodeId,
    pub default: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logical {
    Date,
    TimeMillis,
    TimeMicros,
    Timestamp { unit: Unit, local: bool },
    Decimal { precision: u8, scale: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Int => "int",
            Kind::Long => "long",
            Kind::Float => "float",
            Kind::Double => "double",
            Kind::Bytes => "bytes",
            Kind::String => "string",
            Kind::Fixed(_) => "fixed",
            Kind::Enum { .. } => "enum",
            Kind::Record(_) => "record",
            Kind::Array(_) => "array",
            Kind::Map(_) => "map",
            Kind::Union(_) => "union",
        }
    }
}

impl Name {
    pub fn last(&self) -> &str {
        last_part(&self.full)
    }
}

pub fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl Schema {
    pub fn parse(json: &str) -> Result<Self, String> {
        if nesting(json) > DEEPEST_JSON {
            return Err(format!("is nested more than {DEEPEST_JSON} brackets deep"));
        }
        let value: Value = match sonic_rs::from_str(json) {
            Ok(value) => value,
            // A registry returns `"string"`, users write `string`.
            Err(_) if primitive(json.trim()).is_some() => Value::from(json.trim()),
            Err(error) => {
                let error = error.to_string();
                return Err(format!("is not JSON: {}", error.lines().next().unwrap_or_default()));
            }
        };
        let mut parser = Parser { nodes: Vec::new(), names: HashMap::new(), room: MOST_NAMES };
        let root = parser.node(&value, "", 0)?;
        let empty = empty(&parser.nodes);
        Ok(Schema { nodes: parser.nodes, empty, root })
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub fn kind(&self, id: NodeId) -> &Kind {
        &self.nodes[id].kind
    }

    /// The aliases of a record, an enum or a fixed.
    pub fn aliases(&self, id: NodeId) -> &[String] {
        self.nodes[id].name.as_ref().map_or(&[], |name| &name.aliases)
    }

    /// The type in an error text.
    pub fn describe(&self, id: NodeId) -> String {
        let node = self.node(id);
        match (&node.kind, node.logical, &node.name) {
            (Kind::Union(branches), _, _) => {
                let shown = branches.iter().take(SHOWN).map(|&branch| self.describe(branch));
                let shown = shown.collect::<Vec<_>>().join(", ");
                match branches.len().saturating_sub(SHOWN) {
                    0 => format!("[{shown}]"),
                    more => format!("[{shown} and {more} more]"),
                }
            }
            (_, Some(Logical::Decimal { precision, scale }), _) => format!("decimal({precision},{scale})"),
            (kind, Some(Logical::Date), _) => format!("{} (date)", kind.name()),
            (kind, Some(Logical::TimeMillis | Logical::TimeMicros), _) => format!("{} (time)", kind.name()),
            (kind, Some(Logical::Timestamp { .. }), _) => format!("{} (timestamp)", kind.name()),
            (Kind::Fixed(size), _, Some(name)) => format!("fixed {} of {size} bytes", name.full),
            (kind, _, Some(name)) => format!("{} {}", kind.name(), name.full),
            (kind, _, None) => kind.name().to_owned(),
        }
    }

    /// Whether a value takes no bytes.
    pub fn is_empty(&self, id: NodeId) -> bool {
        self.empty[id]
    }
}

/// Finds the types whose values take no bytes: null, and records of such types. A record counts as empty until one of
/// its fields is not.
fn empty(nodes: &[Node]) -> Vec<bool> {
    let mut empty: Vec<bool> =
        nodes.iter().map(|node| matches!(node.kind, Kind::Null | Kind::Fixed(0) | Kind::Record(_))).collect();
    let mut within: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        if let Kind::Record(fields) = &node.kind {
            fields.iter().for_each(|field| within[field.node].push(id));
        }
    }
    let mut found: Vec<NodeId> = (0..nodes.len()).filter(|&id| !empty[id]).collect();
    while let Some(id) = found.pop() {
        for record in std::mem::take(&mut within[id]) {
            if std::mem::replace(&mut empty[record], false) {
                found.push(record);
            }
        }
    }
    empty
}

/// The greatest number of open brackets outside of strings.
fn nesting(json: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    let (mut inside, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'[' | b'{' if !inside => {
                open += 1;
                most = most.max(open);
            }
            b']' | b'}' if !inside => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

struct Parser {
    nodes: Vec<Node>,
    names: HashMap<String, NodeId>,
    /// Bytes of names left of the limit.
    room: usize,
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

impl Parser {
    fn push(&mut self, kind: Kind, logical: Option<Logical>, name: Option<Name>) -> Result<NodeId, String> {
        if self.nodes.len() == MOST_NODES {
            return Err(format!("has more than {MOST_NODES} types"));
        }
        self.nodes.push(Node { kind, logical, name });
        Ok(self.nodes.len() - 1)
    }

    fn node(&mut self, value: &Value, namespace: &str, depth: usize) -> Result<NodeId, String> {
        if depth > DEEPEST {
            return Err(format!("is nested more than {DEEPEST} types deep"));
        }
        if let Some(name) = value.as_str() {
            if let Some(kind) = primitive(name) {
                return self.push(kind, None, None);
            }
            let found = self.names.get(&qualified(name, namespace)).or_else(|| self.names.get(name));
            return found.copied().ok_or_else(|| format!("names the type {name:?}, which is not defined"));
        }
        if let Some(branches) = value.as_array() {
            return self.union(branches, namespace, depth);
        }
        let Some(kind) = value.get("type") else {
            return Err("has a type that is neither a name, a list nor an object with a type".to_owned());
        };
        let Some(kind) = kind.as_str() else { return self.node(kind, namespace, depth + 1) };
        match kind {
            "array" => {
                let items = value.get("items").ok_or("has an array without items")?;
                let items = self.node(items, namespace, depth + 1)?;
                self.push(Kind::Array(items), None, None)
            }
            "map" => {
                let values = value.get("values").ok_or("has a map without values")?;
                let values = self.node(values, namespace, depth + 1)?;
                self.push(Kind::Map(values), None, None)
            }
            "record" | "error" => self.record(value, namespace, depth),
            "enum" => self.symbols(value, namespace),
            "fixed" => {
                let (name, _) = self.name_of(value, namespace)?;
                let size = value.get("size").and_then(|size| size.as_u64());
                // Arrow's limit for one value of a fixed size.
                let size = size
                    .and_then(|size| i32::try_from(size).ok())
                    .ok_or_else(|| format!("has a fixed {} without a size", name.full))?;
                let kind = Kind::Fixed(size as usize);
                let logical = logical(&kind, value)?;
                self.define(kind, logical, name)
            }
            other => match primitive(other) {
                Some(kind) => {
                    let logical = logical(&kind, value)?;
                    self.push(kind, logical, None)
                }
                None => self.node(&Value::from(other), namespace, depth + 1),
            },
        }
    }

    fn union(&mut self, branches: &[Value], namespace: &str, depth: usize) -> Result<NodeId, String> {
        let branches: Vec<NodeId> = branches
            .iter()
            .map(|branch| self.node(branch, namespace, depth + 1))
            .collect::<Result<_, _>>()?;
        let mut known = HashSet::new();
        for &branch in &branches {
            let node = &self.nodes[branch];
            if let Kind::Union(_) = node.kind {
                return Err("has a union right inside a union".to_owned());
            }
            if !known.insert(node.name.as_ref().ok_or(node.kind.name()).map(|name| name.full.as_str())) {
                return Err(format!("has a union with two branches of type {}", node.kind.name()));
            }
        }
        if branches.is_empty() {
            return Err("has a union without branches".to_owned());
        }
        self.push(Kind::Union(branches), None, None)
    }

    fn define(&mut self, kind: Kind, logical: Option<Logical>, name: Name) -> Result<NodeId, String> {
        let full = name.full.clone();
        let id = self.push(kind, logical, Some(name))?;
        match self.names.insert(full.clone(), id) {
            None => Ok(id),
            Some(_) => Err(format!("defines the type {full} twice")),
        }
    }

    fn record(&mut self, value: &Value, namespace: &str, depth: usize) -> Result<NodeId, String> {
        let (name, namespace) = self.name_of(value, namespace)?;
        let full = name.full.clone();
        // Registered before its fields are parsed: they may refer to it.
        let id = self.define(Kind::Record(Vec::new()), None, name)?;
        let declared = value.get("fields").and_then(|fields| fields.as_array());
        let declared = declared.ok_or_else(|| format!("has a record {full} without fields"))?;
        let mut fields: Vec<Field> = Vec::with_capacity(declared.len());
        let mut names = HashSet::new();
        for field in declared.iter() {
            let name = field.get("name").and_then(|name| name.as_str());
            let name = name.ok_or_else(|| format!("has a field without a name in record {full}"))?;
            if !names.insert(name) {
                return Err(format!("has two fields {name:?} in record {full}"));
            }
            let kind = field.get("type").ok_or_else(|| format!("has no type for field {name} of {full}"))?;
            let node = self.node(kind, &namespace, depth + 1)?;
            let default = field.get("default").cloned();
            fields.push(Field {
                name: name.to_owned(),
                aliases: strings(field.get("aliases")),
                node,
                default,
            });
        }
        self.nodes[id].kind = Kind::Record(fields);
        Ok(id)
    }

    /// The name that a type defines, and the namespace of the types inside it.
    fn name_of(&mut self, value: &Value, namespace: &str) -> Result<(Name, String), String> {
        let name = value.get("name").and_then(|name| name.as_str());
        let name =
            name.filter(|name| !name.is_empty()).ok_or("has a record, enum or fixed without a name")?;
        let namespace = value.get("namespace").and_then(|name| name.as_str()).unwrap_or(namespace);
        let full = qualified(name, namespace);
        let namespace = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
        let aliases = strings(value.get("aliases"));
        let bytes = |name: usize| name + size_of::<String>();
        let bytes = bytes(full.len())
            + aliases.iter().map(|alias| bytes(alias.len() + namespace.len())).sum::<usize>();
        self.room = self
            .room
            .checked_sub(bytes)
            .ok_or_else(|| format!("has names of more than {} MB, namespaces counted", MOST_NAMES >> 20))?;
        let aliases = aliases.iter().map(|alias| qualified(alias, &namespace)).collect();
        Ok((Name { full, aliases }, namespace))
    }

    fn symbols(&mut self, value: &Value, namespace: &str) -> Result<NodeId, String> {
        let (name, _) = self.name_of(value, namespace)?;
        let symbols = strings(value.get("symbols"));
        if symbols.is_empty() {
            return Err(format!("has an enum {} without symbols", name.full));
        }
        let default = match value.get("default").and_then(|default| default.as_str()) {
            None => None,
            Some(default) => Some(symbols.iter().position(|symbol| symbol == default).ok_or_else(|| {
                format!("has an enum {} whose default {default:?} is none of its symbols", name.full)
            })?),
        };
        self.define(Kind::Enum { symbols, default }, None, name)
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let values = value.and_then(|value| value.as_array());
    values.into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn qualified(name: &str, namespace: &str) -> String {
    match (name.strip_prefix('.'), namespace) {
        (Some(name), _) => name.to_owned(),
        (None, "") => name.to_owned(),
        (None, _) if name.contains('.') => name.to_owned(),
        (None, _) => format!("{namespace}.{name}"),
    }
}

/// The logical type. None if there is none, or if it is unknown or invalid: the specification says to ignore those.
fn logical(kind: &Kind, value: &Value) -> Result<Option<Logical>, String> {
    let Some(name) = value.get("logicalType").and_then(|name| name.as_str()) else { return Ok(None) };
    let timestamp = |unit, local| Some(Logical::Timestamp { unit, local });
    Ok(match (kind, name) {
        (Kind::Int, "date") => Some(Logical::Date),
        (Kind::Int, "time-millis") => Some(Logical::TimeMillis),
        (Kind::Long, "time-micros") => Some(Logical::TimeMicros),
        (Kind::Long, "timestamp-millis") => timestamp(Unit::Millis, false),
        (Kind::Long, "timestamp-micros") => timestamp(Unit::Micros, false),
        (Kind::Long, "timestamp-nanos") => timestamp(Unit::Nanos, false),
        (Kind::Long, "local-timestamp-millis") => timestamp(Unit::Millis, true),
        (Kind::Long, "local-timestamp-micros") => timestamp(Unit::Micros, true),
        (Kind::Long, "local-timestamp-nanos") => timestamp(Unit::Nanos, true),
        (Kind::Bytes | Kind::Fixed(_), "decimal") => {
            let number = |name: &str| value.get(name).map(|number| number.as_u64());
            let (precision, scale) = (number("precision").flatten(), number("scale").unwrap_or(Some(0)));
            match (precision, scale) {
                (Some(precision), Some(scale)) if precision > 0 && scale <= precision => {
                    if let Kind::Fixed(size) = kind
                        && precision > digits(*size)
                    {
                        return Ok(None);
                    }
                    if precision > 38 {
                        return Err(format!(
                            "has a decimal({precision},{scale}), and Spark's have 38 digits at most"
                        ));
                    }
                    Some(Logical::Decimal { precision: precision as u8, scale: scale as u8 })
                }
                _ => None,
            }
        }
        _ => None,
    })
}

/// The number of decimal digits that always fit into two's complement of this many bytes.
fn digits(size: usize) -> u64 {
    (((8 * size).saturating_sub(1)) as f64 * std::f64::consts::LOG10_2) as u64
}
