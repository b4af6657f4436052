//! What the fuzz targets of traces and counters assert, as plain functions of bytes.
//!
//! The tests of the crate run them too, with a stable compiler. Blocks of traces have checksums,
//! which a fuzzer would have to guess: so the bytes are also taken as what is in a block.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use std::path::Path;

use striate_trace::count::{Counters, Report};
use striate_trace::{Trace, layer_records_in, records_in};

/// Bytes as a trace, and as the records of a block.
pub fn trace(bytes: &[u8]) {
    let records = records_in(bytes.to_vec());
    // A record has a first byte, and a transfer like the one before it two for its times.
    assert!(records.len() <= bytes.len() / 3 + 1);
    for record in &records {
        let _ = (record.call.kind(), record.call.file(), record.call.path());
        assert_eq!(record.call.map(Clone::clone, Clone::clone), record.call);
    }
    // A call of a layer takes ten bytes at least.
    assert!(layer_records_in(bytes.to_vec()).len() <= bytes.len() / 10);
    let name = Path::new("trace");
    let trace = match Trace::in_memory(name, bytes.to_vec()) {
        Ok(trace) => trace,
        Err(error) => return assert!(error.to_string().starts_with("trace")),
    };
    let mut read = 0_u64;
    let mut damaged = false;
    for record in trace.records() {
        assert!(!damaged, "nothing comes after damage");
        match record {
            Ok(_) => read += 1,
            Err(damage) => {
                assert!(damage.offset <= bytes.len() as u64 && !damage.reason.is_empty());
                damaged = true;
            }
        }
    }
    let (blocks, damage) = trace.blocks();
    let told: u64 = blocks.iter().map(|block| u64::from(block.count)).sum();
    assert!(damaged || damage.is_some() || told == read, "{told} records, {read} read");
    let mut ordered = 0;
    for record in trace.in_order() {
        ordered += u64::from(record.is_ok());
    }
    assert!(damaged || damage.is_some() || ordered == read);
    for block in &blocks {
        let _ = trace.block(block);
    }
    let (layers, _) = trace.layer_blocks();
    let told: u64 = layers.iter().map(|block| u64::from(block.count)).sum();
    let calls: Vec<_> = trace.layer_records(layers).collect();
    let read = calls.iter().filter(|call| call.is_ok()).count() as u64;
    assert!(calls.iter().any(Result::is_err) || damage.is_some() || told == read);
}

/// Bytes as a file of counters.
pub fn counters(bytes: &[u8]) {
    match Counters::decode(bytes) {
        Ok(mut counters) => {
            let other = counters.clone();
            counters.add(&other);
            assert_eq!(counters.processes.len(), 2);
            assert!(Report(&counters).to_string().starts_with("striate"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
