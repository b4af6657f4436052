//! What a model says, against what was done; and what is made of it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod scenario;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use scenario::{CREATE, MS, READ, Scenario, US, good};
use striate_report::model::Class;
use striate_report::text::Style;
use striate_report::what_if::{Candidate, Measured, candidates, measure};
use striate_report::{Model, Options, page, report, text};

#[test]
fn sums_are_those_of_the_calls() {
    let mut scenario = Scenario::new();
    good(&mut scenario, 3);
    let model = scenario.model();
    let sums = model.totals.sums;
    assert_eq!((sums.calls.write, sums.calls.sync, sums.calls.metadata), (600, 3, 6));
    assert_eq!((sums.bytes_written, sums.bytes_read, sums.failed), (600 * (4 << 20), 0, 0));
    assert_eq!(sums.time_ns.all(), 3 * (200 * 2 * MS + 5 * MS + 150 * US));
    assert_eq!((model.totals.processes, model.totals.ranks, model.totals.threads), (3, 3, 3));
    assert_eq!((model.totals.files, model.totals.files_exact, model.totals.opens), (3, true, 3));
    // Everything is told three times, and the same.
    let processes: u64 = model.processes.iter().map(|row| row.sums.time_ns.all()).sum();
    let files: u64 = model.files.iter().map(|row| row.sums.time_ns.all()).sum();
    let functions: u64 = model.functions.iter().map(|row| row.time_ns).sum();
    let lanes: u64 = model
        .timeline
        .lanes
        .iter()
        .flat_map(|lane| Class::ALL.map(|class| lane.of(class).iter().sum::<u64>()))
        .sum();
    for sum in [processes, files, functions, lanes] {
        assert_eq!(sum, sums.time_ns.all());
    }
    assert_eq!(model.rate.written.iter().sum::<u64>(), sums.bytes_written);
    assert_eq!(model.rate.calls.iter().sum::<u64>(), sums.calls.all());
    let heat = model.files[0].heat.as_ref().unwrap();
    assert_eq!(heat.cells.iter().map(|cell| cell.written).sum::<u64>(), 200 * (4 << 20));
    let sizes: u64 = model.sizes.iter().map(|row| row.writes.calls).sum();
    assert_eq!((sizes, model.sizes.len(), model.sizes[0].from), (600, 1, 4 << 20));
    assert_eq!(model.concurrency.most, 3);
    assert_eq!((model.files[0].sequential, model.files[0].random), (199, 0));
}

#[test]
fn a_model_is_the_same_after_json() {
    let mut scenario = Scenario::new();
    good(&mut scenario, 2);
    let model = scenario.model();
    let text = serde_json::to_string(&model).unwrap();
    let back: Model = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert_eq!((back.format.as_str(), back.version), ("striate report", 1));
}

#[test]
fn names_that_are_no_text_do_no_harm() {
    let mut scenario = Scenario::new();
    let mut program = scenario.named(None, &["/bin/<b>evil</b>", "\u{1b}[31m"]);
    let name = OsStr::from_bytes(b"/data/\xff\xfe</script><script>alert(1)</script>\x1b[2J");
    let file = program.open(Path::new(name), CREATE, US);
    (0..100u64).for_each(|n| program.write(&file, n << 20, 1 << 20, MS));
    program.finish();
    let model = scenario.model();
    let page = page::render(&model);
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains("<b>evil") && page.contains("&lt;b&gt;evil"));
    assert!(page.contains("\u{FFFD}&lt;/script&gt;"));
    assert!(!page.contains('\u{1b}'));
    let text = text::render(&model, &Style::default());
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn pages_stay_small_whatever_is_recorded() {
    let mut scenario = Scenario::new();
    for rank in 0..300u32 {
        let mut program = scenario.program(Some(rank));
        for n in 0..40u64 {
            let path = format!("/data/{}/{rank}/{n}/{}", "long".repeat(30), "name".repeat(30));
            let file = program.open(path, CREATE, 10 * US);
            for m in 0..20u64 {
                let takes = (1 + (m * 7919 + n * 31 + u64::from(rank)) % 50) * US;
                program.write(&file, (m * 2_654_435_761 + n * 40_503) % (1 << 30), 700 + m, takes);
                program.think((m * 13 % 7) * 20 * US);
            }
            program.close(&file, 10 * US);
        }
        program.finish();
    }
    let model = scenario.model();
    assert_eq!(model.totals.sums.calls.all(), 300 * 40 * 22);
    assert!(
        model.processes.len() <= 256 && model.timeline.lanes.len() <= 32 && model.files.len() <= 40
    );
    assert_eq!(model.other_processes.count, 44);
    let page = page::render(&model);
    assert!(page.len() < 1 << 20, "{}", page.len());
    assert!(serde_json::to_string(&model).unwrap().len() < 2 << 20);
}

#[test]
fn what_is_damaged_is_read_up_to_the_damage() {
    let mut scenario = Scenario::new();
    good(&mut scenario, 1);
    let mut program = scenario.program(Some(1));
    let file = program.open("/data/x", READ, US);
    (0..100_000u64).for_each(|n| program.read(&file, n * n, 10, US));
    program.finish();
    let path = scenario.path().join("102.trace");
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let model = report(&scenario.recording(), &Options::default());
    assert!(!model.recording.complaints.is_empty());
    assert!(model.totals.sums.calls.read > 1000 && model.totals.sums.calls.read < 100_000);
    assert!(page::render(&model).contains("Not all could be read"));
    assert!(text::render(&model, &Style::default()).contains("\n! "));
}

#[test]
fn text_has_the_same_words() {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    let file = program.open("/data/small.dat", CREATE, US);
    (0..2000u64).for_each(|n| program.write(&file, n * 100, 100, 50 * US));
    program.close(&file, US);
    program.finish();
    let mut model = scenario.model();
    let mut asked = Vec::new();
    let found = candidates(&model);
    measure(&mut model, found, &mut |candidate: &Candidate| {
        asked.push(candidate.name.clone());
        Ok(Measured {
            seconds_without: 1.0,
            seconds_with: 0.5,
            call_seconds_without: 0.9,
            call_seconds_with: 0.3,
            differences: 2,
            rounds: 3,
            place: "/scratch".into(),
        })
    });
    let other = vec![Candidate { name: "mine".into(), stack: String::new() }];
    measure(&mut model, other, &mut |_: &Candidate| Err("the disk is full".to_owned()));
    assert_eq!(asked, ["write-back"]);
    let shown = text::render(&model, &Style::default());
    for words in [
        "One thing stands out.",
        "Many small writes (high): 2,000 writes of 100 B on average",
        "kind = \"write-back\"",
        "3 ×",
        "2 calls",
        "the disk is full",
        "/data/small.dat",
        "pwrite",
        "Sizes of requests",
    ] {
        assert!(shown.contains(words), "{words} is missing in\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 110), "{shown}");
    let ascii = text::render(&model, &Style { unicode: false, ..Style::default() });
    assert!(ascii.is_ascii(), "{ascii}");
    let page = page::render(&model);
    assert!(page.contains("the disk is full") && page.contains("3 ×"));
}

#[test]
fn nothing_recorded_is_said() {
    let mut scenario = Scenario::new();
    scenario.program(None).finish();
    let model = scenario.model();
    assert!(text::render(&model, &Style::default()).contains("Nothing was recorded."));
    assert!(page::render(&model).contains("Nothing was recorded."));
}
