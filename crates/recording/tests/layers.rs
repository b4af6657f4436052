//! Calls of layers above those that they caused: in order, in figures, in what is cut, merged and
//! exported.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_recording::{Entry, Filter, Recording, Stats, cut, export, filter, merge};
use striate_trace::layer::LayerFunction;
use striate_trace::{Call, Function, Header, LayerRecord, Origin, Record, TracedFile, Writer};

const CLOCK: u64 = 1 << 40;

fn layer(function: LayerFunction, path: &str, start: u64, duration: u64) -> LayerRecord {
    LayerRecord {
        function,
        thread: 1,
        start: CLOCK + start,
        duration,
        outcome: Ok(64),
        path: Path::new(path).into(),
        file: 1,
        offset: Some(8),
        length: 64,
        count: 8,
    }
}

fn write(thread: u32, path: &str, start: u64, duration: u64) -> Record {
    let path = PathBuf::from(path);
    let number = if path.ends_with("log") { 2 } else { 1 };
    let file = Arc::new(TracedFile { opener: 1, number, path, flags: libc::O_RDWR });
    let call = Call::Write { file, placed: true, offset: Some(0), length: 64, flags: 0, parts: 1 };
    let (function, start) = (Function::Pwrite, CLOCK + start);
    Record { function, thread, start, duration, outcome: Ok(64), known: true, call }
}

/// Two ranks that write together, with a helper thread and other work beside it.
fn recorded(directory: &Path) -> Recording {
    for rank in [0, 1] {
        let origin = Origin { process: 10 + rank, rank: Some(rank), ..Origin::default() };
        let header = Header { origin, began: 1 << 60, clock: CLOCK, ..Header::default() };
        let path = directory.join(format!("{rank}.trace"));
        let mut writer = Writer::create(path, &header).unwrap();
        for record in [
            write(1, "/data/a", 1_000, 100),
            write(1, "/data/a", 11_000, 1_000),
            // Of a thread that works for the call, and of one that does not.
            write(2, "/data/a", 12_000, 1_000),
            write(2, "/data/log", 12_500, 1_000),
            write(1, "/data/a", 30_000, 100),
            write(1, "/data/a", 41_000, 100),
        ] {
            writer.write(&record).unwrap();
        }
        writer.write_layer(&layer(LayerFunction::MpiOpen, "/data/a", 5_000, 500)).unwrap();
        writer.write_layer(&layer(LayerFunction::MpiWriteAtAll, "/data/a", 10_000, 9_000)).unwrap();
        writer.write_layer(&layer(LayerFunction::MpiWriteAt, "/data/a", 40_000, 3_000)).unwrap();
        writer.finish().unwrap();
    }
    Recording::open(directory).unwrap()
}

/// The calls of rank 0: their names, and those of the calls above them.
fn told(recording: &Recording, filter: &Filter) -> Vec<(String, Option<&'static str>)> {
    let of_first = recording
        .nested(filter)
        .filter(|(index, _)| recording.processes()[*index].header().origin.rank == Some(0));
    of_first
        .map(|(_, entry)| match entry {
            Entry::Layer(layer) => (layer.function.name().to_owned(), None),
            Entry::Call(record, above) => {
                let name = format!("{} {}", record.function.name(), record.start);
                (name, above.map(|above| above.function.name()))
            }
        })
        .collect()
}

#[test]
fn calls_stand_beneath_those_that_caused_them() {
    let directory = tempfile::tempdir().unwrap();
    let recording = recorded(directory.path());
    assert_eq!((recording.records_count(), recording.layer_calls()), (12, 6));
    let all = Some("MPI_File_write_at_all");
    let expected = [
        ("pwrite 1000", None),
        ("MPI_File_open", None),
        ("MPI_File_write_at_all", None),
        ("pwrite 11000", all),
        ("pwrite 12000", all),
        ("pwrite 12500", None),
        ("pwrite 30000", None),
        ("MPI_File_write_at", None),
        ("pwrite 41000", Some("MPI_File_write_at")),
    ]
    .map(|(name, above)| (name.to_owned(), above));
    assert_eq!(told(&recording, &Filter::default()), expected);

    let without = Filter { without_layers: true, ..Filter::default() };
    assert!(
        told(&recording, &without)
            .iter()
            .all(|(name, above)| { name.starts_with("pwrite") && above.is_none() })
    );
}

#[test]
fn figures_tell_what_is_beneath() {
    let directory = tempfile::tempdir().unwrap();
    let recording = recorded(directory.path());
    let stats = Stats::of(&recording, &Filter::default(), None);
    // What is on files counts once.
    assert_eq!((stats.total.calls, stats.total.writes.bytes), (12, 12 * 64));
    let together = stats.layers["MPI_File_write_at_all"];
    assert!(together.collective);
    assert_eq!((together.own.calls, together.own.bytes, together.own.time), (2, 128, 18_000));
    let beneath = together.beneath;
    assert_eq!((beneath.calls, beneath.bytes, beneath.time), (4, 256, 4_000));
    assert_eq!(stats.layers["MPI_File_open"].own.bytes, 0);
    assert!(!stats.layers["MPI_File_write_at"].collective);
}

#[test]
fn merged_and_cut_they_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("traces");
    std::fs::create_dir(&place).unwrap();
    let recording = recorded(&place);
    let all = told(&recording, &Filter::default());
    let into = directory.path().join("merged.trace");
    merge(&recording, &into).unwrap();
    let merged = Recording::open(&into).unwrap();
    assert_eq!(merged.complaints(), [""; 0]);
    assert_eq!(told(&merged, &Filter::default()), all);

    let into = directory.path().join("cut.trace");
    let some = Filter { from: Some(9_000), to: Some(20_000), ..Filter::default() };
    assert_eq!(cut(&merged, &some, &into).unwrap(), 8);
    let part = Recording::open(&into).unwrap();
    assert_eq!(told(&part, &Filter::default()), all[2..6]);

    // No process has a call of it, so there is no process.
    let into = directory.path().join("none.trace");
    let paths = filter::paths(&["/nowhere/**".to_owned()]).unwrap();
    assert_eq!(cut(&merged, &Filter { paths, ..Filter::default() }, &into).unwrap(), 0);
    assert_eq!(Recording::open(&into).unwrap().processes().len(), 0);
}

#[test]
fn exports_have_both() {
    let directory = tempfile::tempdir().unwrap();
    let recording = recorded(directory.path());
    let exported = |format| {
        let mut bytes = Vec::new();
        export::write(&recording, &Filter::default(), format, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let lines = exported(export::ExportFormat::Jsonl);
    let call = lines.lines().find(|line| line.contains("\"MPI_File_write_at_all\"")).unwrap();
    for part in ["\"kind\":\"mpi-io\"", "\"collective\":true", "\"count\":8", "\"offset\":8"] {
        assert!(call.contains(part), "{call}");
    }
    assert_eq!(lines.matches("\"above\":\"MPI_File_write_at_all\"").count(), 4);
    let table = exported(export::ExportFormat::Csv);
    let columns = table.lines().map(|line| line.split(',').count());
    assert!(columns.into_iter().all(|count| count == 29), "{table}");
    // Slices of a thread within each other, the outer one first.
    let events = exported(export::ExportFormat::Perfetto);
    let outer = events.find("\"name\":\"MPI_File_write_at_all\"").unwrap();
    assert!(events[outer..].find("\"ts\":11.000,\"dur\":1.000").is_some(), "{events}");
    assert!(events[outer..].contains("\"cat\":\"mpi-io\",\"ts\":10.000,\"dur\":9.000"), "{events}");
    // Darshan's module is one of calls on files.
    assert!(!exported(export::ExportFormat::Darshan).contains("MPI_"));
}
