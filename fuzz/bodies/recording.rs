//! What the fuzz targets of recordings assert, as plain functions of bytes.
//!
//! The tests of the crate run them too, with a stable compiler.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use std::path::Path;

use striate_darshan::{Log, Module};
use striate_recording::import::{ImportFormat, Options, import_from};
use striate_recording::{Filter, Recording, Stats, export};

/// Bytes as a file of several traces.
pub fn multi_process(bytes: &[u8]) {
    let name = Path::new("multi_process");
    let recording = match Recording::in_memory(name, bytes.to_vec()) {
        Ok(recording) => recording,
        Err(error) => return assert!(error.to_string().contains("multi_process")),
    };
    let mut order = recording.in_order();
    let read = order.by_ref().count() as u64;
    assert!(read <= recording.records_count());
    assert!(read == recording.records_count() || !order.damages().is_empty());
    for process in recording.processes() {
        let _ = (process.preopened(), process.span(), process.trace().blocks());
    }
    let stats = Stats::of(&recording, &Filter::default(), None);
    assert_eq!(stats.total.calls, read);
    for format in [
        export::ExportFormat::Jsonl,
        export::ExportFormat::Csv,
        export::ExportFormat::Perfetto,
        export::ExportFormat::Darshan,
    ] {
        assert!(export::write(&recording, &Filter::default(), format, &mut Vec::new()).is_ok());
    }
}

/// Bytes as the output of strace, imported into a directory.
pub fn strace(bytes: &[u8], directory: &Path) {
    imported(bytes, ImportFormat::Strace, directory);
}

/// Bytes as the output of darshan-dxt-parser.
pub fn dxt(bytes: &[u8], directory: &Path) {
    imported(bytes, ImportFormat::Dxt, directory);
}

/// Bytes as a Darshan log: all that can be read of it, and its import.
pub fn darshan(bytes: &[u8], directory: &Path) {
    let Ok(log) = Log::parse(bytes) else {
        return imported(bytes, ImportFormat::Darshan, directory);
    };
    for module in log.modules() {
        let mut seen = 0;
        let read = match module {
            Module::LUSTRE => log.layouts(&mut |_| seen += 1),
            Module::DXT_POSIX | Module::DXT_MPI_IO => log.segments(module, &mut |traced, _| {
                let _ = log.name(traced.id).and_then(|name| log.mount(name));
                seen += 1;
            }),
            _ => log.counters(module, &mut |record| {
                assert!(!record.counters.is_empty() && !record.times.is_empty());
                seen += 1;
            }),
        };
        match read {
            Ok(records) => assert_eq!(records, seen),
            Err(damage) => assert!(damage.records == seen && !damage.to_string().is_empty()),
        }
    }
    imported(bytes, ImportFormat::Darshan, directory);
}

fn imported(mut bytes: &[u8], format: ImportFormat, directory: &Path) {
    let into = directory.join("imported.trace");
    let options = Options { format: Some(format), ..Options::default() };
    let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
    match import_from(&mut bytes, &options, Path::new("lines"), &into) {
        Ok(imported) => {
            assert!(imported.lines <= lines);
            let recording = Recording::open(&into).expect("what was imported is a recording");
            assert_eq!(recording.complaints(), [""; 0]);
            assert_eq!(recording.records_count(), imported.records);
            assert_eq!(recording.in_order().count() as u64, imported.records);
            std::fs::remove_file(&into).expect("it was made");
        }
        Err(error) => assert!(!error.to_string().is_empty() && !into.exists(), "{error}"),
    }
}
