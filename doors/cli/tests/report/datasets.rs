//! Reports name the datasets that a real program of h5py and netCDF accessed.

use std::fs;

use serde_json::Value;

use crate::preloaded::striate;
use crate::python::python;

#[test]
fn datasets_of_files_are_named() {
    let place = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/datasets.py");
    let here = |arguments: &[&str]| {
        let output = striate().args(arguments).current_dir(place.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let interpreter = python().to_str().unwrap();
    let names = ["a.h5", "b.nc", "gone.h5"];
    let run = ["run", "--quiet", "--trace", "traces", "--", interpreter, script];
    here(&[&run[..], &names].concat());
    fs::remove_file(place.path().join("gone.h5")).unwrap();
    let document: Value = serde_json::from_str(&here(&["--json", "report", "traces"])).unwrap();
    let files = document["rows"][0]["datasets"].as_array().unwrap();
    let of = |name: &str| {
        let is_it = |file: &&Value| file["path"].as_str().unwrap().ends_with(name);
        files.iter().find(is_it).unwrap_or_else(|| panic!("{name} is not in {files:#?}"))
    };
    let row = |name: &str, dataset: &str| -> [u64; 4] {
        let rows = of(name)["datasets"].as_array().unwrap();
        let row = rows.iter().find(|row| row["dataset"] == dataset);
        let row = row.unwrap_or_else(|| panic!("{dataset} is not in {rows:#?}"));
        ["bytes_read", "bytes_written", "writes", "small"].map(|field| row[field].as_u64().unwrap())
    };
    assert_eq!(row("a.h5", "/whole")[1], 1 << 20);
    let [read, written, writes, small] = row("a.h5", "/group/chunks");
    // Of the chunk with the last element, all or the element alone is read.
    assert!((4..=32_000).contains(&read), "{read}");
    assert_eq!((written, writes), (256_000, 8));
    assert!(small >= 8, "{small}");
    let metadata = row("a.h5", "");
    assert!((500..100_000).contains(&metadata[1]), "{metadata:?}");
    let untouched = of("a.h5")["datasets"].as_array().unwrap();
    assert!(untouched.iter().all(|row| row["dataset"] != "/untouched"), "{untouched:#?}");
    // Blocks of the library have fill values of several variables, so more may be written.
    assert!(row("b.nc", "/fixed")[1] >= 80_000, "{files:#?}");
    assert!(row("b.nc", "/one")[1] >= 5 * 40_000, "{files:#?}");
    assert!(row("b.nc", "/other")[1] >= 20_000, "{files:#?}");
    let note = of("gone.h5")["notes"][0].as_str().unwrap();
    assert!(note.contains("not there any more"), "{note}");
    // The same in the other forms.
    let text = here(&["report", "traces"]);
    assert!(text.contains("Datasets of ") && text.contains("/group/chunks"), "{text}");
    assert!(text.contains("not there any more"), "{text}");
    here(&["report", "traces", "-o", "page.html"]);
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("id=\"datasets\"") && page.contains("chunks</"), "no table in the page");
    // A file that changed since.
    let path = place.path().join("a.h5");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
    let text = here(&["report", "traces"]);
    assert!(text.contains("was changed after the recording"), "{text}");
}
