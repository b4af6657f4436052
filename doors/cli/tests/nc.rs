//! `striate nc` as people and scripts call it: what it tells, what it copies, and how it fails.
//! With the feature `peers` also beside the tools of netCDF and PnetCDF.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "nc/corpus.rs"]
mod corpus;
#[path = "nc/damaged.rs"]
mod damaged;
#[path = "nc/failures.rs"]
mod failures;
#[path = "nc/generate.rs"]
mod generate;
#[cfg(feature = "peers")]
#[path = "nc/generate_peers.rs"]
mod generate_peers;
#[path = "nc/moves.rs"]
mod moves;
#[cfg(feature = "peers")]
#[path = "nc/ncdump.rs"]
mod ncdump;
#[cfg(feature = "peers")]
#[path = "nc/netcdf4_copies.rs"]
mod netcdf4_copies;
#[path = "nc/ownership.rs"]
mod ownership;
#[path = "nc/partitioned.rs"]
mod partitioned;
#[cfg(feature = "peers")]
#[path = "nc/peers.rs"]
mod peers;
#[path = "nc/tools.rs"]
mod tools;

use std::ffi::OsStr;

use corpus::Made;
use serde_json::Value;
use striate_array::format::{Alignment, Dimension, Header, Variable};
use striate_array::{Format, Type, Values};
use striate_server::Embedded;
use tools::{answer, striate, told};

fn rows(output: &std::process::Output) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["rows"].as_array().unwrap().clone()
}

/// A dataset of some 40 MiB: several batches for every rank, of fixed variables and of records,
/// with records that are larger than a batch if `large`.
fn big(large: bool) -> Made {
    let mut header = Header::new(Format::Cdf5);
    header.records = if large { 2 } else { 700 };
    for (name, len) in [("t", 0), ("n", if large { 2_500_000 } else { 1501 }), ("k", 3)] {
        header.dimensions.push(Dimension::classic(name, len));
    }
    let shapes: [(&str, Type, &[u32]); 5] = [
        ("fixed", Type::Int, &[1, 2]),
        ("a", Type::Double, &[0, 1]),
        ("b", Type::Byte, &[0, 2]),
        ("c", Type::Short, &[0, 1, 2]),
        ("d", Type::Char, &[0]),
    ];
    for (name, external, dimensions) in shapes {
        header.variables.push(Variable::new(name, external, dimensions.to_vec()));
    }
    header.arrange(&Alignment { header: 1, fixed: 1, fixed_from: 0, record: 1 }, None).unwrap();
    let data = header.variables.iter().map(|variable| {
        let len = header.shape(variable).iter().product::<u64>() * variable.external.size();
        let bytes: Vec<u8> = (0..len).map(|i| (i % 97) as u8 ^ ((i >> 13) as u8 % 8)).collect();
        Values::from_bytes(variable.external, &bytes)
    });
    Made { data: data.collect(), header }
}

#[test]
fn large_datasets_are_copied_in_batches() {
    let directory = tempfile::tempdir().unwrap();
    for large in [false, true] {
        let from = big(large).write(directory.path(), "from.nc");
        let to = directory.path().join("to.nc");
        let options = ["copy", "-f", "-k", "cdf2", "-n", "3"].map(OsStr::new);
        let copied = striate(options.into_iter().chain([from.as_os_str(), to.as_os_str()]));
        answer(copied, "copy");
        let compared = striate([OsStr::new("compare"), from.as_os_str(), to.as_os_str()]);
        assert_eq!(told(&compared), "no differences\n");
    }
}

#[test]
fn info_tells_the_layout() {
    let directory = tempfile::tempdir().unwrap();
    let made = Made::new(41);
    let path = made.write(directory.path(), "a.nc");
    let output = striate([OsStr::new("info"), OsStr::new("--json"), path.as_os_str()]);
    let row = &rows(&output)[0];
    assert_eq!(row["format"], made.header.format.to_string());
    assert_eq!(row["header_size"], made.header.encoded_len());
    assert_eq!(row["size"], made.bytes().len());
    assert_eq!(row["records"], made.header.records);
    let variables = row["variables"].as_array().unwrap();
    assert_eq!(variables.len(), made.header.variables.len());
    for (row, variable) in variables.iter().zip(&made.header.variables) {
        assert_eq!(row["name"], variable.name);
        assert_eq!(row["begin"], variable.begin);
        assert_eq!(row["type"], variable.external.name());
        assert_eq!(row["shape"], serde_json::json!(made.header.shape(variable)));
    }
    let text = told(&striate([OsStr::new("info"), path.as_os_str()]));
    assert!(text.contains(&format!("format      {}", made.header.format)), "{text}");
}

#[test]
fn servers_are_as_good_as_paths() {
    let servers = Embedded::start(3).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let made = Made::new(seed + 900);
        let local = made.write(directory.path(), "local.nc");
        let url = format!("{}/some/{seed}.nc", servers.url());
        let there = ["copy".as_ref(), local.as_os_str(), url.as_ref()];
        answer(striate(there), &url);
        let back = directory.path().join("back.nc");
        answer(striate(["copy".as_ref(), "-f".as_ref(), url.as_ref(), back.as_os_str()]), &url);
        let text = answer(striate(["dump", "-n", "x", &url]), &url);
        for path in [&local, &back] {
            let arguments = ["dump".as_ref(), "-n".as_ref(), "x".as_ref(), path.as_os_str()];
            assert!(answer(striate(arguments), &url) == text, "{url}");
        }
        let compared = striate(["compare".as_ref(), url.as_ref(), local.as_os_str()]);
        assert_eq!(told(&compared), "no differences\n");
        assert!(striate(["validate", &url]).status.success());
        assert!(striate(["info", &url]).status.success());
        let again = striate(there);
        assert!(told(&again).contains("it exists"), "{}", told(&again));
        let name = format!("netcdf \\{seed} {{\n");
        assert!(answer(striate(["header", &url]), &url).starts_with(name.as_bytes()));
    }
    // No copy is there under the name that it had on the way.
    let client = striate_store::remote::Client::shared(&servers.url().parse().unwrap()).unwrap();
    assert_eq!(client.list("").unwrap().len(), 12);
}
