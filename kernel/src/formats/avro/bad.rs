//! What is wrong in a record, and where.

/// The path is from the inside out.
#[derive(Debug)]
pub struct Bad {
    pub kind: Kind,
    path: Vec<String>,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text that is none.
    NotText,
    Other,
}

impl std::fmt::Display for Bad {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
            write!(to, "field {}: ", path.join("."))?;
        }
        to.write_str(&self.reason)
    }
}

/// Boxed: a result must stay small, and this is rare.
pub type Read<T> = Result<T, Box<Bad>>;

#[cold]
pub fn bad<T>(reason: impl Into<String>) -> Read<T> {
    Err(Box::new(Bad { kind: Kind::Other, path: Vec::new(), reason: reason.into() }))
}

#[cold]
pub fn not_text<T>(reason: impl Into<String>) -> Read<T> {
    Err(Box::new(Bad { kind: Kind::NotText, path: Vec::new(), reason: reason.into() }))
}

#[cold]
pub fn inside(mut bad: Box<Bad>, name: &str) -> Box<Bad> {
    if !name.is_empty() {
        bad.path.push(name.to_owned());
    }
    bad
}
