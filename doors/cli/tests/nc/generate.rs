//! `striate nc generate`: what it makes, and that it leaves nothing when it fails.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use striate_server::Embedded;

use crate::rows;
use crate::tools::{answer, command, complaint, striate, told};

const TEXT: &str = "netcdf small {\ndimensions:\n\tt = UNLIMITED ;\n\tx = 3 ;\nvariables:\n\
    \tint v(t, x) ;\n\t\tv:units = \"m\" ;\ndata:\n v = 1, 2, 3, 4, 5, 6 ;\n}\n";

/// A text of one variable in chunks, some MiB of values.
fn long_text() -> String {
    let values: Vec<String> = (0..600_000).map(|value| format!("{}", value % 977)).collect();
    format!(
        "netcdf long {{ dimensions: x = 600, y = 1000; variables: int v(x, y);\n\
         v:_ChunkSizes = 7, 300; v:_DeflateLevel = 1;\ndata: v = {} ; }}",
        values.join(",\n")
    )
}

/// The elements of the variable `v` of a netCDF-4 file, which are little-endian.
fn elements(path: &Path) -> Vec<i32> {
    let bytes = fs::read(path).unwrap();
    let file = striate_hdf5::File::open(bytes.as_slice()).unwrap();
    let mut elements = Vec::new();
    file.visit(&mut |name, object| {
        if name.as_bytes() == b"/v" {
            let dataset = file.dataset(object)?;
            let mut buffer = vec![0; dataset.bytes().unwrap() as usize];
            file.read(&dataset, &mut buffer)?;
            let numbers = buffer.chunks_exact(4);
            elements = numbers.map(|it| i32::from_le_bytes(it.try_into().unwrap())).collect();
        }
        Ok(std::ops::ControlFlow::Continue(()))
    })
    .unwrap();
    elements
}

/// All elements are in their chunks, also if a row of chunks is more than what is in memory at a
/// time (8 MiB).
#[test]
fn elements_are_in_their_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let (text, file) = (directory.path().join("a.cdl"), directory.path().join("a.nc"));
    let make = |cdl: String| {
        fs::write(&text, cdl).unwrap();
        answer(striate(["generate", "-f", text.to_str().unwrap(), file.to_str().unwrap()]), "a");
        elements(&file)
    };
    let found = make(long_text());
    assert_eq!(found.len(), 600_000);
    assert!(found.iter().enumerate().all(|(at, &value)| value == at as i32 % 977));

    let given = 1_900_000;
    let values: Vec<String> = (0..given).map(|value| format!("{}", value % 991)).collect();
    let found = make(format!(
        "netcdf a {{ dimensions: x = 2, y = 1400, z = 1000; variables: int v(x, y, z);\n\
         v:_ChunkSizes = 1, 300, 800; v:_FillValue = -5;\ndata: v = {} ; }}",
        values.join(",")
    ));
    assert_eq!(found.len(), 2_800_000);
    let expected = |at: usize| if at < given { at as i32 % 991 } else { -5 };
    assert!(found.iter().enumerate().all(|(at, &value)| value == expected(at)));
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_text_becomes_a_file_and_a_text_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("small.cdl"), TEXT).unwrap();
    for format in ["cdf1", "cdf2", "cdf5"] {
        let made = striate(["generate", "-f", "-k", format, &path("small.cdl"), &path("a.nc")]);
        let said = String::from_utf8(answer(made, format)).unwrap();
        assert!(said.contains("1 variable"), "{said}");
        let text = answer(striate(["dump", "-n", "small", &path("a.nc")]), format);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("t = UNLIMITED ; // (2 currently)"), "{text}");
        assert!(text.contains("1, 2, 3,\n  4, 5, 6 ;"), "{text}");
    }
    let again = complaint(["generate", &path("small.cdl"), "-o", &path("a.nc")], 1);
    assert!(again.contains("it exists") && again.contains("--force"), "{again}");
    let output = striate(["generate", "--json", &path("small.cdl"), "-o", &path("b.nc")]);
    let row = &rows(&output)[0];
    assert_eq!((&row["format"], &row["data_size"]), (&"CDF-1".into(), &24.into()));
    let both = complaint(["generate", &path("small.cdl"), "-o", &path("c.nc"), &path("d.nc")], 2);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn standard_input_and_the_name_of_the_dataset() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = command(["generate", "-"])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(TEXT.as_bytes()).unwrap();
    answer(child.wait_with_output().unwrap(), "standard input");
    assert!(directory.path().join("small.nc").exists());
    fs::write(directory.path().join("other.name.cdl"), TEXT).unwrap();
    let made = command(["generate", "other.name.cdl"]).current_dir(directory.path()).output();
    answer(made.unwrap(), "default name");
    assert!(directory.path().join("other.name.nc").exists());
}

#[test]
fn files_on_servers() {
    let servers = Embedded::start(2).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("small.cdl");
    fs::write(&text, TEXT).unwrap();
    let url = format!("{}/run/a.nc", servers.url());
    answer(striate(["generate", text.to_str().unwrap(), &url]), &url);
    let dumped = String::from_utf8(answer(striate(["dump", &url]), &url)).unwrap();
    assert!(dumped.contains("1, 2, 3,\n  4, 5, 6 ;"), "{dumped}");
    let local = directory.path().join("local.nc");
    let url = format!("{}/run/b.nc", servers.url());
    for to in [url.as_str(), local.to_str().unwrap()] {
        let options = ["generate", "--format", "netcdf4", text.to_str().unwrap(), to];
        answer(striate(options), to);
    }
    let back = directory.path().join("back.nc");
    let copy = ["cp", &url, back.to_str().unwrap()];
    let mut copying = std::process::Command::new(env!("CARGO_BIN_EXE_striate"));
    answer(copying.arg("fs").args(copy).output().unwrap(), &url);
    assert_eq!(fs::read(&back).unwrap(), fs::read(&local).unwrap());
    let client = striate_store::remote::Client::shared(&servers.url().parse().unwrap()).unwrap();
    assert_eq!(client.list("").unwrap().len(), 2);
}

#[test]
fn mistakes_are_told_with_their_place_and_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let made = tempfile::tempdir().unwrap();
    let (text, file) = (directory.path().join("a.cdl"), made.path().join("a.nc"));
    let expected = [
        ("netcdf a {\n  dimensions:\n  x = ;\n}", "line 3, column 7: expected a length"),
        ("netcdf a {\nvariables:\n  int v(x) ;\n}", "line 3, column 9: there is no dimension 'x'"),
        ("netcdf a {\nvariables:\n  colour v ;\n}", "line 3, column 3: there is no type 'colour'"),
        ("netcdf a {\nvariables:\n  int v, v ;\n}", "line 3, column 10: there is a variable 'v'"),
        (
            "netcdf a {\nvariables:\n byte v ;\ndata:\n v = 300 ;\n}",
            "line 5, column 6: 300 is out of the range of its type",
        ),
        (
            "netcdf a {\ndimensions: x = 2;\nvariables: int v(x);\ndata: v = 1,\n 2,\n 3 ;\n}",
            "line 6, column 2: variable 'v' has 2 elements, and more values are given",
        ),
        ("netcdf a {\n:a = \"x ;\n}", "line 2, column 6: a text in quotes does not end"),
        ("netcdf a {\n:a = 1 ;\n:a = 2 ;\n}", "line 3, column 2: there is an attribute 'a'"),
    ];
    for (cdl, problem) in expected {
        fs::write(&text, cdl).unwrap();
        for format in ["cdf5", "netcdf4"] {
            let arguments = ["generate", "-k", format, text.to_str().unwrap()];
            let said = complaint(arguments.into_iter().chain([file.to_str().unwrap()]), 1);
            assert!(said.contains(problem), "{cdl}: {said}");
            assert!(is_empty(made.path()), "{cdl}");
        }
    }
    let of_formats = [
        ("netcdf a { group: g { } }", "CDF-5 does not have groups, such as 'g'"),
        ("netcdf a { types: int(*) t; }", "CDF-5 does not have user-defined types, such as 't'"),
        ("netcdf a { variables: string v; }", "CDF-5 does not have the type of variable 'v'"),
        ("netcdf a { dimensions: t = UNLIMITED, u = UNLIMITED; }", "two unlimited dimensions"),
    ];
    for (cdl, problem) in of_formats {
        fs::write(&text, cdl).unwrap();
        let arguments = ["generate", "-k", "cdf5", text.to_str().unwrap(), file.to_str().unwrap()];
        let said = complaint(arguments, 1);
        assert!(said.contains(problem) && said.contains("--format netcdf4"), "{said}");
        assert!(is_empty(made.path()), "{cdl}");
    }
    let of_storage = [
        ("int v(x); v:_ChunkSizes = 5;", "variable 'v': a chunk is longer than a dimension"),
        ("int v(x); v:_Storage = \"compact\"; v:_DeflateLevel = 1;", "a filter needs chunks"),
        ("int v(x); v:_Filter = \"9999\";", "variable 'v'"),
        ("int v(x); group: v { }", "a group and a variable of one group are both called 'v'"),
    ];
    for (cdl, problem) in of_storage {
        fs::write(&text, format!("netcdf a {{ dimensions: x = 3; variables: {cdl} }}")).unwrap();
        let said = complaint(["generate", text.to_str().unwrap(), file.to_str().unwrap()], 1);
        assert!(said.contains(problem), "{cdl}: {said}");
        assert!(is_empty(made.path()), "{cdl}");
    }
    let said = complaint(["generate", "-k", "cdf3", text.to_str().unwrap()], 2);
    assert!(said.contains("there are cdf1, cdf2, cdf5, netcdf4 and netcdf4-classic"), "{said}");
    let said = complaint(["generate", "/nonexistent.cdl"], 1);
    assert!(said.contains("cannot read /nonexistent.cdl"), "{said}");
}

#[test]
fn values_that_are_wrong_late_leave_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let (text, file) = (directory.path().join("a.cdl"), directory.path().join("a.nc"));
    fs::write(&text, long_text().replace(" ; }", ", 1, 2 ; }")).unwrap();
    fs::write(&file, "old").unwrap();
    let said =
        complaint(["generate", "--force", text.to_str().unwrap(), file.to_str().unwrap()], 1);
    assert!(said.contains("has 600000 elements, and more values are given"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), b"old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// Whatever ends the command, there is no file or a complete one, and the next one clears up.
#[test]
fn kills_leave_no_half_file() {
    let directory = tempfile::tempdir().unwrap();
    let texts = tempfile::tempdir().unwrap();
    let (text, file) = (texts.path().join("a.cdl"), directory.path().join("a.nc"));
    fs::write(&text, long_text()).unwrap();
    let arguments = || ["generate", "-f", text.to_str().unwrap(), file.to_str().unwrap()];
    let begin = Instant::now();
    answer(striate(arguments()), "whole");
    let takes = begin.elapsed();
    let whole = fs::read(&file).unwrap();
    for (number, signal) in ["-KILL", "-TERM"].into_iter().cycle().take(8).enumerate() {
        let _ = fs::remove_file(&file);
        let child =
            command(arguments()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(takes.mul_f64((number as f64 + 0.5) / 8.0).min(Duration::from_secs(5)));
        let pid = child.id().to_string();
        let _ = std::process::Command::new("kill").args([signal, pid.as_str()]).output().unwrap();
        let output = child.wait_with_output().unwrap();
        if file.exists() {
            assert!(fs::read(&file).unwrap() == whole, "{signal}: {}", told(&output));
        }
    }
    answer(striate(arguments()), "after kills");
    assert!(fs::read(&file).unwrap() == whole);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left of the others");
}
