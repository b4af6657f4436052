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
    assert!(page::render(&model).contains("Some data could not be read"));
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

fn measured(gain: f64) -> Measured {
    Measured {
        seconds_without: 2.0,
        seconds_with: 1.0 / gain + 1.0,
        call_seconds_without: 1.0,
        call_seconds_with: 1.0 / gain,
        differences: 0,
        rounds: 3,
        place: "/scratch".into(),
    }
}

/// Small writes to one file, and many small files: two findings with a stack each.
fn two_findings() -> Model {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    let file = program.open("/data/small.dat", CREATE, 100 * US);
    (0..2000u64).for_each(|n| program.write(&file, n * 100, 100, 50 * US));
    program.close(&file, US);
    for n in 0..400 {
        let file = program.open(format!("/data/{n}.txt"), CREATE, 300 * US);
        program.write(&file, 0, 3000, 300 * US);
        program.close(&file, 200 * US);
    }
    program.finish();
    let model = scenario.model();
    let rules: Vec<_> = model.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["small-files", "small-writes"]);
    model
}

#[test]
fn advice_that_a_measurement_refutes_comes_last_and_says_so() {
    let mut model = two_findings();
    let found = candidates(&model);
    measure(&mut model, found, &mut |candidate: &Candidate| {
        Ok(measured(if candidate.name == "combine" { 0.51 } else { 3.0 }))
    });
    let rules: Vec<_> = model.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["small-writes", "small-files"]);
    let (kept, refuted) = (&model.findings[0], &model.findings[1]);
    assert!(!kept.is_refuted() && refuted.is_refuted());
    let (_, stack) = striate_report::advice::offered(&model.findings).unwrap();
    assert_eq!(stack.name, "write-back");

    let wide = Style { width: 200, ..Style::default() };
    let shown = text::render(&model, &wide);
    for words in [
        "Many small files (refuted)",
        "Refuted: repeated with combine, the calls of this recording were 0.51 × as fast",
        "Measured: repeated with write-back, the calls of this recording were 3 × as fast",
        "The stack of one was tried and makes it slower",
        "striate run --stack stack.toml -- your command",
    ] {
        assert!(shown.contains(words), "{words} is missing in\n{shown}");
    }
    // What was estimated is not told beside what was measured, nor a stack offered that is slower.
    assert!(!shown.contains("Estimated gain") && !shown.contains("kind = \"combine\""), "{shown}");
    let page = page::render(&model);
    assert!(page.contains("Refuted: repeated with combine") && page.contains("card refuted"));
    assert!(!page.contains("Estimated gain") && !page.contains("kind = &quot;combine&quot;"));
    let json = serde_json::to_value(&model).unwrap();
    assert_eq!(json["findings"][1]["measured"]["refuted"], true);
    assert_eq!(json["findings"][0]["measured"]["refuted"], false);

    // If all are refuted, none is offered.
    let mut model = two_findings();
    let found = candidates(&model);
    measure(&mut model, found, &mut |_: &Candidate| Ok(measured(0.9)));
    assert!(striate_report::advice::offered(&model.findings).is_none());
    assert!(text::render(&model, &wide).contains("The stacks of 2 were tried and make it slower"));
}

#[test]
fn a_recording_is_called_by_what_was_started() {
    let mut scenario = Scenario::new();
    let mut first = scenario.named(None, &["/home/me/run.sh", "--fast"]);
    first.stat("/data", US);
    first.finish();
    let mut helper = scenario.child(101, None, &["/bin/sh", "-c", "gzip out"]);
    let file = helper.open("/data/out", CREATE, US);
    (0..100u64).for_each(|n| helper.write(&file, n << 20, 1 << 20, MS));
    helper.finish();
    let model = scenario.model();
    assert_eq!(model.recording.command, "/home/me/run.sh --fast");
    assert!(text::render(&model, &Style::default()).starts_with("/home/me/run.sh --fast\n"));
    assert!(page::render(&model).contains("<h1>/home/me/run.sh --fast</h1>"));
}

#[test]
fn byte_code_of_python_is_one_row() {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    let read = |program: &mut scenario::Program, path: String, takes| {
        let file = program.open_of_size(path, READ, 4096, US);
        program.read(&file, 0, 4096, takes);
        program.close(&file, US);
    };
    for n in 0..60 {
        read(&mut program, format!("/usr/lib/python3/a{}/__pycache__/m{n}.pyc", n % 5), 20 * US);
    }
    read(&mut program, "/data/in.nc".into(), 100 * US);
    read(&mut program, "/data/other.nc".into(), 10 * MS);
    program.finish();
    let model = scenario.model();
    let rows: Vec<_> =
        model.files.iter().map(|row| (row.path.as_str(), row.files, row.opens)).collect();
    let expected = [
        ("/data/other.nc", None, 1),
        ("/usr/lib/python3/*.pyc", Some(60), 60),
        ("/data/in.nc", None, 1),
    ];
    assert_eq!(rows, expected);
    assert_eq!((model.totals.files, model.other_files.count), (62, 0));
    let sums: u64 = model.files.iter().map(|row| row.sums.calls.all()).sum();
    assert_eq!(sums, model.totals.sums.calls.all());
    assert!(page::render(&model).contains("60 files"));
    // With a table of two rows it is one of them, and nothing is lost.
    let few = Options { files: 2, ..Options::default() };
    let few = report(&scenario.recording(), &few);
    assert_eq!((few.files.len(), few.other_files.count), (2, 1));
}

#[test]
fn many_files_are_folded() {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    for n in 0..40 {
        let file = program.open_of_size(format!("/data/{n}.nc"), READ, 4096, US);
        program.read(&file, 0, 4096, (100 - n) * US);
        program.close(&file, US);
    }
    program.finish();
    let page = page::render(&scenario.model());
    let section = &page[page.find("<section id=\"files\"").unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    let (seen, folded) = section.split_once("<details>").unwrap();
    assert!(folded.starts_with("<summary>28 more files</summary>"), "{}", &folded[..80]);
    assert_eq!(seen.matches("<tr>").count(), 13);
    assert!(seen.contains("0.nc") && folded.contains("39.nc"));
}

#[test]
fn nothing_recorded_is_said() {
    let mut scenario = Scenario::new();
    scenario.program(None).finish();
    let model = scenario.model();
    assert!(text::render(&model, &Style::default()).contains("Nothing was recorded."));
    assert!(page::render(&model).contains("Nothing was recorded."));
}
