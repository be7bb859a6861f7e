//! How much may be made of a schema: small texts can describe far more than they hold, by names that are used again.

use crate::formats::budget::UNIT;

/// Bytes, about, of what is made to read by one pair of schemas, and of what is looked at on the way.
const MOST: usize = 64 * UNIT;

/// What any step costs at least.
pub const STEP: usize = 64;

pub struct Work {
    left: usize,
    is_used_up: bool,
}

impl Default for Work {
    fn default() -> Self {
        Work { left: MOST, is_used_up: false }
    }
}

impl Work {
    /// Before it is made.
    pub fn spend(&mut self, bytes: usize) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                self.is_used_up = true;
                Err(Work::refusal())
            }
        }
    }

    /// The error's text of anything that came to nothing because all is spent, whatever was tried last.
    pub fn check(&self) -> Result<(), String> {
        if self.is_used_up { Err(Work::refusal()) } else { Ok(()) }
    }

    fn refusal() -> String {
        format!(
            "takes more than {} MB to read by, all references followed and all defaults written out",
            MOST >> 20
        )
    }
}
