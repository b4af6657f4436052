//! Two things side by side.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod scenario;

use std::path::Path;

use scenario::{CREATE, Scenario, US};
use serde_json::json;
use striate_report::compare::{Change, Comparison, Input, Verdict, compare, render};

fn recording(writes: u64, takes: u64) -> Scenario {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    let file = program.open("/data/x", CREATE, 100 * US);
    (0..writes).for_each(|n| program.write(&file, n * 1000, 1000, takes + n % 7 * takes / 50));
    program.close(&file, 10 * US);
    program.finish();
    scenario
}

fn compared(a: &Path, b: &Path) -> Comparison {
    compare(&Input::open(a).unwrap(), &Input::open(b).unwrap()).unwrap()
}

fn found<'c>(comparison: &'c Comparison, subject: &str, what: &str) -> &'c Change {
    let matches = |change: &&Change| change.subject == subject && change.what == what;
    comparison
        .changes
        .iter()
        .find(matches)
        .unwrap_or_else(|| panic!("{subject}: {what}: {comparison:#?}"))
}

#[test]
fn recordings_are_counted_and_their_times_tested() {
    let (a, b) = (recording(1000, 10 * US), recording(500, 30 * US));
    let both = compared(a.path(), b.path());
    let writes = found(&both, "all", "writes");
    assert_eq!((writes.a, writes.b, writes.verdict), (1000.0, 500.0, Verdict::Differs));
    assert_eq!(found(&both, "all", "opens").verdict, Verdict::Same);
    let median = found(&both, "pwrite", "median time of a call");
    assert_eq!(median.verdict, Verdict::Significant);
    assert!((2.0..4.5).contains(&median.ratio.unwrap()) && median.p.unwrap() < 0.001);
    assert_eq!(found(&both, "all", "time in calls").verdict, Verdict::Untested);
    // One open on each side says nothing.
    assert_eq!(found(&both, "open", "median time of a call").verdict, Verdict::Untested);

    let same = compared(a.path(), a.path());
    let verdicts: Vec<Verdict> = same.changes.iter().map(|change| change.verdict).collect();
    assert!(!verdicts.contains(&Verdict::Differs) && !verdicts.contains(&Verdict::Significant));
    let text = render(&both, false);
    assert!(
        text.contains("pwrite") && text.contains("significant") && text.contains("-500"),
        "{text}"
    );
    assert!(text.contains("the same on both sides"), "{text}");
}

fn written(directory: &Path, name: &str, document: &serde_json::Value) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

fn bench(scale: f64, operations: u64, port: u16, extra: bool) -> serde_json::Value {
    let samples =
        |base: f64| -> Vec<f64> { (0..9).map(|n| base * scale + f64::from(n * 5 % 9)).collect() };
    let row = |op: &str, base: f64| {
        json!({ "workload": "strided", "api": "striate", "op": op, "ranks": 4, "block": 64, "collective": true,
            "store": format!("striate://127.0.0.1:{port}/ (4 servers)"), "median_mib_s": base * scale,
            "ci95": [1.0, 2.0], "samples": samples(base), "open_s": 0.1, "operations": operations })
    };
    let mut rows = vec![row("write", 1000.0), row("read", 2000.0)];
    if extra {
        rows.push(row("scan", 5.0));
    }
    json!({ "striate": "0.1.0", "command": [], "rows": rows, "ratios": [] })
}

#[test]
fn benchmarks_are_matched_and_tested() {
    let directory = tempfile::tempdir().unwrap();
    let a = written(directory.path(), "a.json", &bench(1.0, 32, 1234, false));
    let b = written(directory.path(), "b.json", &bench(1.5, 16, 4321, true));
    let both = compared(&a, &b);
    let rates: Vec<&Change> = both.changes.iter().filter(|change| change.what == "rate").collect();
    assert_eq!(rates.len(), 2);
    for rate in rates {
        assert_eq!(rate.verdict, Verdict::Significant);
        assert!((rate.ratio.unwrap() - 1.5).abs() < 0.01);
        let [low, high] = rate.ci95.unwrap();
        assert!(low > 1.4 && high < 1.6);
    }
    let operations: Vec<_> =
        both.changes.iter().filter(|change| change.what == "operations").collect();
    assert_eq!((operations.len(), operations[0].a, operations[0].b), (2, 32.0, 16.0));
    assert_eq!((both.only_a.len(), both.only_b.len()), (0, 1));
    let same = compared(&a, &a);
    assert!(same.changes.iter().all(|change| change.verdict == Verdict::NotSignificant));
    // A list of documents, as benchmarks keep them.
    let list = written(
        directory.path(),
        "list.json",
        &json!([bench(1.0, 32, 1, false), bench(1.0, 32, 1, false)]),
    );
    assert_eq!(compared(&list, &list).changes.len(), 4);
}

#[test]
fn runs_are_compared_by_function() {
    let directory = tempfile::tempdir().unwrap();
    let run = |calls: u64, seconds: f64, more: bool| {
        let mut functions = json!({ "write": { "calls": calls, "failed": 0, "bytes": calls * 10, "seconds": seconds } });
        if more {
            functions["fsync"] = json!({ "calls": 1, "failed": 0, "bytes": 0, "seconds": 0.1 });
        }
        json!({ "rows": [{ "stage": 1, "label": "", "calls": calls, "failed": 0, "seconds": seconds, "functions": functions }] })
    };
    let a = written(directory.path(), "a.json", &run(100, 1.0, true));
    let b = written(directory.path(), "b.json", &run(10, 0.5, false));
    let both = compared(&a, &b);
    let calls = found(&both, "write", "calls");
    assert_eq!((calls.a, calls.b, calls.verdict), (100.0, 10.0, Verdict::Differs));
    assert!((found(&both, "write", "time").difference + 5e8).abs() < 1.0);
    assert_eq!((both.only_a, both.only_b.len()), (vec!["fsync".to_owned()], 0));
}

#[test]
fn reports_stand_for_their_recordings_and_others_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = recording(50, US);
    let model = serde_json::to_value(scenario.model()).unwrap();
    let path = written(directory.path(), "report.json", &json!({ "rows": [model] }));
    let both = compared(&path, scenario.path());
    assert!(both.changes.iter().all(|change| change.verdict != Verdict::Differs));

    let other = written(directory.path(), "other.json", &json!({ "rows": [{ "a": 1 }] }));
    let error = Input::open(&other).unwrap_err().to_string();
    assert!(error.contains("neither a recording nor"), "{error}");
    let bench = written(directory.path(), "bench.json", &bench(1.0, 1, 1, false));
    let error =
        compare(&Input::open(&bench).unwrap(), &Input::open(scenario.path()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("is the result of a benchmark"), "{error}");
    std::fs::write(directory.path().join("short"), "x").unwrap();
    assert!(Input::open(&directory.path().join("short")).is_err());
    assert!(Input::open(&directory.path().join("absent")).is_err());
}
