//! Why a record is bad, and how much memory it may ask for.
#![forbid(unsafe_code)]

use super::wire::Broken;

/// What is wrong, and in which field. Boxed: a read's result must stay small, and this is rare.
#[derive(Debug)]
pub struct Bad(Box<Wrong>);

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

impl Bad {
    #[cold]
    pub fn new(reason: String) -> Self {
        Bad(Box::new(Wrong { path: Vec::new(), reason: Reason::Other(reason) }))
    }

    #[cold]
    pub fn within(mut self, field: &str) -> Self {
        self.0.path.push(field.to_owned());
        self
    }

    /// Whether it is a text that is none.
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

impl From<Broken> for Bad {
    #[cold]
    fn from(broken: Broken) -> Self {
        Bad(Box::new(Wrong { path: Vec::new(), reason: Reason::Broken(broken) }))
    }
}

/// Bytes of columns that one record may make beyond its own: an empty message in a list takes two bytes, and each of its
/// thousand columns makes a cell of it.
const RECORD: usize = 32 << 20;
/// The same for all records of a batch together.
pub const BATCH: usize = 512 << 20;

pub struct Budget {
    batch: usize,
    record: usize,
}

impl Budget {
    pub fn new() -> Self {
        Budget { batch: BATCH, record: 0 }
    }

    pub fn begin_record(&mut self) {
        self.record = RECORD.min(self.batch);
    }

    /// A bad record leaves nothing behind, and so costs nothing.
    pub fn end_record(&mut self) {
        self.batch -= RECORD.min(self.batch) - self.record;
    }

    #[inline(always)]
    pub fn spend(&mut self, bytes: usize) -> Result<(), Broken> {
        self.record = self.record.checked_sub(bytes).ok_or(Broken::TooWide)?;
        Ok(())
    }
}
