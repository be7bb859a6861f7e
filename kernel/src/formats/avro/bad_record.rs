//! Why a record is bad, and in which field.

/// The path goes from the innermost field outwards.
#[derive(Debug)]
pub struct BadRecord {
    pub kind: Kind,
    path: Vec<String>,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string that is not UTF-8.
    NotText,
    Other,
}

impl std::fmt::Display for BadRecord {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
            write!(to, "field {}: ", path.join("."))?;
        }
        to.write_str(&self.reason)
    }
}

/// Boxed: results must stay small, and errors are rare.
pub type Read<T> = Result<T, Box<BadRecord>>;

#[cold]
pub fn bad<T>(reason: impl Into<String>) -> Read<T> {
    Err(Box::new(BadRecord { kind: Kind::Other, path: Vec::new(), reason: reason.into() }))
}

#[cold]
pub fn not_text<T>(reason: impl Into<String>) -> Read<T> {
    Err(Box::new(BadRecord { kind: Kind::NotText, path: Vec::new(), reason: reason.into() }))
}

#[cold]
pub fn inside(mut bad: Box<BadRecord>, name: &str) -> Box<BadRecord> {
    if !name.is_empty() {
        bad.path.push(name.to_owned());
    }
    bad
}
