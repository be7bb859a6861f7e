//! What is wrong in a record, and where.

/// The path is from the inside out.
#[derive(Debug)]
pub struct Bad {
    path: Vec<String>,
    reason: String,
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

/// In the reason of every text that is none.
pub const NOT_TEXT: &str = "is not UTF-8";

/// Boxed: a result must stay small, and this is rare.
pub type Read<T> = Result<T, Box<Bad>>;

#[cold]
pub fn bad<T>(reason: impl Into<String>) -> Read<T> {
    Err(Box::new(Bad { path: Vec::new(), reason: reason.into() }))
}

#[cold]
pub fn inside(mut bad: Box<Bad>, name: &str) -> Box<Bad> {
    if !name.is_empty() {
        bad.path.push(name.to_owned());
    }
    bad
}
