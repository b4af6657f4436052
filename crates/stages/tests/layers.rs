//! Calls of layers above POSIX in traces: they are read as they were written, next to the calls
//! that they caused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::path::{Path, PathBuf};

use program::Program;
use proptest::prelude::*;
use striate_process::Origin;
use striate_stack::layer::{LayerCall, LayerFunction};
use striate_trace::{
    Damage, Header, LayerRecord, MultiProcessWriter, Part, Trace, TraceFile, Writer,
};

fn header(process: u32) -> Header {
    let origin = Origin { process, rank: Some(process), ..Origin::default() };
    Header { origin, began: 1 << 60, clock: 1 << 40, ..Header::default() }
}

fn calls() -> impl Strategy<Value = LayerRecord> {
    let function = (0..LayerFunction::ALL.len()).prop_map(|n| LayerFunction::ALL[n]);
    let outcome = prop_oneof![(0..1_u64 << 62).prop_map(Ok), (1..4096_i32).prop_map(Err)];
    let times = (0..1_u64 << 42, 0..1_u64 << 30);
    let path = "/[a-c]{1,2}(/[x-z]{0,3})?";
    let rest = any::<(u64, Option<i64>, u64, u64)>();
    (function, 1..4_u32, times, outcome, path, rest).prop_map(
        |(function, thread, (start, duration), outcome, path, (file, offset, length, count))| {
            let path = PathBuf::from(path).into();
            LayerRecord {
                function,
                thread,
                start,
                duration,
                outcome,
                path,
                file,
                offset,
                length,
                count,
            }
        },
    )
}

fn read(trace: &Trace) -> Vec<LayerRecord> {
    let (blocks, damage) = trace.layer_blocks();
    assert_eq!(damage, None);
    trace.layer_records(blocks).map(Result::unwrap).collect()
}

proptest! {
    #[test]
    fn what_is_told_is_read(calls in proptest::collection::vec(calls(), 0..80)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("one.trace");
        let mut writer = Writer::create(&path, &header(1)).unwrap();
        for call in &calls {
            writer.write_layer(call).unwrap();
        }
        writer.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        prop_assert_eq!(&read(&trace), &calls);
        prop_assert_eq!(trace.records().count(), 0);
        prop_assert_eq!(std::fs::read(&path).unwrap()[8], 5);

        // The same in a file of several, copied and anew.
        let path = directory.path().join("several.trace");
        let mut writer = MultiProcessWriter::create(&path).unwrap();
        let headers = [header(1), header(2)];
        let part = |n: usize| Part { header: &headers[n], source: "a", zero: None, preopened: &[] };
        writer.begin(&part(0)).unwrap();
        for block in trace.layer_blocks().0 {
            writer.copy(&trace.stored(&block).unwrap()).unwrap();
        }
        writer.begin(&part(1)).unwrap();
        for call in &calls {
            writer.write_layer(call).unwrap();
        }
        writer.finish().unwrap();
        let several = TraceFile::open(&path).unwrap();
        prop_assert!(several.damage.is_none());
        for trace in &several.traces {
            prop_assert_eq!(&read(trace), &calls);
        }
        prop_assert_eq!(std::fs::read(&path).unwrap()[8], 6);
    }
}

fn call(start: u64) -> LayerRecord {
    LayerRecord {
        function: LayerFunction::MpiWriteAtAll,
        thread: 1,
        start: (1 << 40) + start,
        duration: 900,
        outcome: Ok(start),
        path: Path::new("/data/a").into(),
        file: 1,
        offset: Some(start as i64),
        length: 4096,
        count: 512,
    }
}

#[test]
fn a_cut_trace_has_the_calls_up_to_the_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.trace");
    let mut writer = Writer::create(&path, &header(1)).unwrap();
    let calls: Vec<LayerRecord> = (0..20_000).map(|n| call(n * n)).collect();
    for call in &calls {
        writer.write_layer(call).unwrap();
    }
    writer.finish().unwrap();
    let blocks = Trace::open(&path).unwrap().layer_blocks().0;
    assert!(blocks.len() > 3, "{}", blocks.len());
    let bytes = std::fs::read(&path).unwrap();
    let cut = blocks[2].offset as usize + 5;
    let trace = Trace::in_memory(Path::new("cut"), bytes[..cut].to_vec()).unwrap();
    let (found, damage) = trace.layer_blocks();
    assert_eq!(found, blocks[..2]);
    assert!(matches!(damage, Some(Damage { offset, .. }) if offset == blocks[2].offset));
    let whole: u32 = found.iter().map(|block| block.count).sum();
    let read: Vec<LayerRecord> = trace.layer_records(found).map(Result::unwrap).collect();
    assert_eq!(read, calls[..whole as usize]);
    // A block elsewhere than said is damage, not a panic.
    let wrong = striate_trace::BlockInfo { offset: 16, ..blocks[0] };
    assert!(trace.layer_records([wrong]).next().unwrap().is_err());
}

#[test]
fn a_stage_records_calls_of_layers_by_the_clock_of_all_others() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let stack = format!(
        "[paths]\nexclude = ['*.log']\n[[stage]]\nkind = 'count'\ndirectory = '{at}'\n\
         [[stage]]\nkind = 'trace'\ndirectory = '{at}'\n"
    );
    let program = Program::new(&stack);
    let path = directory.path().join("data");
    let file = program.open(&path, libc::O_CREAT | libc::O_RDWR).unwrap();
    let start = program.stack.layer_clock().unwrap();
    program.write(&file, b"within", Some(0)).unwrap();
    let end = program.stack.layer_clock().unwrap();
    let told = LayerCall {
        function: LayerFunction::MpiWriteAt,
        path: &path,
        file: 5,
        offset: Some(3),
        length: 8,
        count: 2,
        outcome: Ok(6),
        start,
        end,
    };
    program.stack.layer_call(&told);
    let excluded = directory.path().join("a.log");
    program.stack.layer_call(&LayerCall { path: &excluded, ..told });
    program.write(&file, b"after", Some(0)).unwrap();
    program.stack.finish().unwrap();

    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let traces: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "trace")).collect();
    let trace = Trace::open(&traces[0]).unwrap();
    let layers = read(&trace);
    let [layer] = &layers[..] else { panic!("{layers:?}") };
    assert_eq!((layer.function, &*layer.path), (LayerFunction::MpiWriteAt, &*path));
    assert_eq!((layer.file, layer.offset, layer.length, layer.count), (5, Some(3), 8, 2));
    assert_eq!(layer.outcome, Ok(6));
    let records: Vec<_> = trace.in_order().map(Result::unwrap).collect();
    let inside = |place: usize| {
        let middle = records[place].start + records[place].duration / 2;
        (layer.start..=layer.end()).contains(&middle)
    };
    assert_eq!([0, 1, 2].map(inside), [false, true, false], "{layer:?} {records:?}");
    assert_eq!(layer.thread, records[1].thread);

    // No time is read where no stage records.
    let counted = Program::new(&format!("[paths]\n[[stage]]\nkind = 'align'\n# {at}"));
    assert_eq!(counted.stack.layer_clock(), None);
}
