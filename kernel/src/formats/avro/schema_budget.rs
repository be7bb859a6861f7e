//! Limits the work that a pair of schemas may cause: a small text can describe far more than it holds, by repeated use
//! of a name.

use crate::formats::budget::UNIT;

/// Approximate bytes that are built or read to resolve one pair of schemas.
const MOST: usize = 64 * UNIT;

/// The minimum cost of any step.
pub const STEP: usize = 64;

pub struct SchemaBudget {
    left: usize,
    is_used_up: bool,
}

impl Default for SchemaBudget {
    fn default() -> Self {
        SchemaBudget { left: MOST, is_used_up: false }
    }
}

impl SchemaBudget {
    /// Call before the step.
    pub fn spend(&mut self, bytes: usize) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                self.is_used_up = true;
                Err(SchemaBudget::refusal())
            }
        }
    }

    /// Fails if the budget is used up. For errors of a failed attempt, whatever was tried last.
    pub fn check(&self) -> Result<(), String> {
        if self.is_used_up { Err(SchemaBudget::refusal()) } else { Ok(()) }
    }

    fn refusal() -> String {
        format!(
            "takes more than {} MB to resolve, with all references followed and all defaults expanded",
            MOST >> 20
        )
    }
}
