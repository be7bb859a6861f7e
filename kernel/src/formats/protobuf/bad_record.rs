//! Why a record is bad.
#![forbid(unsafe_code)]

use super::wire::Broken;
use crate::formats::budget::TooWide;

/// The reason, and the field. Boxed: results must stay small, and errors are rare.
#[derive(Debug)]
pub struct BadRecord(Box<Wrong>);

#[derive(Debug)]
struct Wrong {
    /// From the innermost field outwards.
    path: Vec<String>,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Broken(Broken),
    Other(String),
}

impl BadRecord {
    #[cold]
    pub fn new(reason: String) -> Self {
        BadRecord(Box::new(Wrong { path: Vec::new(), reason: Reason::Other(reason) }))
    }

    #[cold]
    pub fn within(mut self, field: &str) -> Self {
        self.0.path.push(field.to_owned());
        self
    }

    /// Whether a string is not UTF-8.
    pub fn is_not_text(&self) -> bool {
        matches!(self.0.reason, Reason::Broken(Broken::NotUtf8))
    }

    pub fn reason(mut self) -> String {
        let reason = match self.0.reason {
            Reason::Broken(broken) => broken.reason().to_owned(),
            Reason::Other(reason) => reason,
        };
        if self.0.path.is_empty() {
            return reason;
        }
        self.0.path.reverse();
        format!("field {}: {reason}", self.0.path.join("."))
    }
}

impl From<Broken> for BadRecord {
    #[cold]
    fn from(broken: Broken) -> Self {
        BadRecord(Box::new(Wrong { path: Vec::new(), reason: Reason::Broken(broken) }))
    }
}

impl From<TooWide> for BadRecord {
    #[cold]
    fn from(_: TooWide) -> Self {
        BadRecord::new(TooWide::REASON.to_owned())
    }
}
