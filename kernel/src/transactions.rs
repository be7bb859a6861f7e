//! Tracks which transactions are aborted at the current batch, by the rule of Kafka's Java consumer.
//!
//! A fetch response lists the aborted transactions that overlap it as (producer id, first offset). A producer is
//! *active* from the first offset of its aborted transaction to the abort marker of that transaction. Its transactional
//! batches in between are dropped.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::batch::Header;
use crate::error::Fault;
use crate::record::Reader;

/// Control record type of an abort marker (1 commits).
const ABORT: i16 = 0;

#[derive(Debug, Clone, Default)]
pub struct Transactions {
    /// (first offset, producer id), sorted in descending order: the transaction that begins first is at the end.
    waiting: Vec<(i64, i64)>,
    /// Producers with an aborted transaction whose marker has not been read yet. A set, because the peer decides how
    /// long the list is: with 80,000 entries a vector took 0.7 s, and a response has room for millions.
    active: HashSet<i64>,
}

impl Transactions {
    /// `aborted`: (producer id, first offset), in any order.
    pub fn new(aborted: &[(i64, i64)]) -> Self {
        let mut waiting: Vec<_> = aborted.iter().map(|&(producer, first)| (first, producer)).collect();
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        Transactions { waiting, active: HashSet::new() }
    }

    /// Processes the next batch in offset order. Returns whether its records are dropped. `payload` holds the
    /// decompressed records of the batch; only the payload of a control batch is read.
    pub fn observe(&mut self, header: &Header, payload: &[u8]) -> Result<bool, Fault> {
        if header.producer_id < 0 {
            return Ok(false);
        }
        while let Some((_, producer)) = self.waiting.pop_if(|(first, _)| *first <= header.last_offset) {
            self.active.insert(producer);
        }
        if header.is_control() {
            if is_abort_marker(header, payload)? {
                self.active.remove(&header.producer_id);
            }
            return Ok(false);
        }
        Ok(header.is_transactional() && self.active.contains(&header.producer_id))
    }
}

fn is_abort_marker(header: &Header, payload: &[u8]) -> Result<bool, Fault> {
    if header.record_count == 0 {
        return Ok(false); // // compaction removed the marker and kept the empty batch
    }
    let record = Reader::new(payload).record()?;
    // Key: version i16, type i16.
    let kind = record.key.and_then(|key| key.get(2..)).and_then(|rest| rest.first_chunk());
    Ok(i16::from_be_bytes(*kind.ok_or(Fault::Truncated)?) == ABORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Front, read_front};
    use crate::test_batches::Batch;

    const COMMIT: i16 = 1;

    fn observe(transactions: &mut Transactions, batch: &Batch) -> Result<bool, Fault> {
        match read_front(&batch.encode(), true) {
            Ok(Front::Batch(header)) => transactions.observe(&header, &batch.payload),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_producer_is_dropped_from_its_first_offset_to_its_abort_marker() {
        let mut transactions = Transactions::new(&[(7, 10)]);
        let mut dropped = |batch: Batch| observe(&mut transactions, &batch).unwrap();
        assert!(!dropped(Batch::counted(5, 5).transactional(7)));
        assert!(dropped(Batch::counted(10, 2).transactional(7)));
        assert!(!dropped(Batch::counted(12, 2).transactional(8)), "another producer");
        assert!(!dropped(Batch::counted(14, 2)), "not transactional");
        assert!(!dropped(Batch::control(16, 8, ABORT)), "another producer's marker");
        assert!(dropped(Batch::counted(17, 1).transactional(7)));
        assert!(!dropped(Batch::control(18, 7, ABORT)));
        assert!(!dropped(Batch::counted(19, 1).transactional(7)), "its next transaction");
    }

    #[test]
    fn a_commit_marker_ends_nothing() {
        let mut transactions = Transactions::new(&[(7, 0)]);
        assert_eq!(observe(&mut transactions, &Batch::control(0, 7, COMMIT)), Ok(false));
        assert_eq!(observe(&mut transactions, &Batch::counted(1, 1).transactional(7)), Ok(true));
    }

    #[test]
    fn transactions_may_be_named_in_any_order_and_more_than_once() {
        let mut transactions = Transactions::new(&[(7, 20), (8, 0), (7, 0), (7, 0)]);
        let mut dropped = |batch: Batch| observe(&mut transactions, &batch).unwrap();
        assert!(dropped(Batch::counted(0, 1).transactional(7)));
        assert!(dropped(Batch::counted(1, 1).transactional(8)));
        assert!(!dropped(Batch::control(2, 7, ABORT)));
        assert!(!dropped(Batch::counted(3, 1).transactional(7)));
        assert!(dropped(Batch::counted(20, 1).transactional(7)));
    }

    #[test]
    fn a_control_batch_emptied_by_compaction_is_not_a_marker() {
        let mut transactions = Transactions::new(&[(7, 0)]);
        let mut marker = Batch::new(0, &[]).transactional(7);
        marker.attributes |= 0x20;
        assert_eq!(observe(&mut transactions, &marker), Ok(false));
        assert_eq!(observe(&mut transactions, &Batch::counted(1, 1).transactional(7)), Ok(true));
    }

    #[test]
    fn a_marker_without_a_type_is_refused() {
        let mut marker = Batch::counted(0, 1).transactional(7);
        marker.attributes |= 0x20;
        assert_eq!(observe(&mut Transactions::new(&[]), &marker), Err(Fault::Truncated));
    }
}
