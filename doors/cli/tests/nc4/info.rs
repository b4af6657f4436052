//! What `striate nc info` says about how variables are stored.

use std::ffi::OsStr;

use serde_json::{Value, json};

use striate_server::Embedded;
use striate_store::Store;
use striate_store::remote::{RemoteFile, RemoteOptions};

use crate::tools::{striate, told};
use crate::{generate, oracle_texts};

#[test]
fn storage_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = generate(directory.path(), "storage.nc", "nc4", oracle_texts::TEXTS[4]).unwrap();
    let options = ["info", "--chunks", "--stripe", "512", "--json"].map(OsStr::new);
    let output = striate(options.into_iter().chain([path.as_os_str()]));
    assert!(output.status.success(), "{}", told(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &document["rows"][0];
    assert_eq!((&row["format"], &row["kind"]), (&json!("netCDF-4"), &json!("netCDF-4")));
    assert_eq!(row["stripe"], 512);
    let variable = |name: &str| {
        let variables = row["variables"].as_array().unwrap();
        variables.iter().find(|variable| variable["path"] == name).unwrap()
    };
    let chunked = variable("chunked");
    assert_eq!(chunked["storage"], "chunked");
    assert_eq!(chunked["chunk"], json!([7, 11]));
    assert_eq!(chunked["filters"], json!(["shuffle", "deflate 3"]));
    assert_eq!(chunked["size"], 40 * 30 * 4);
    assert_eq!(chunked["chunks"]["total"], 6 * 3);
    assert_eq!(chunked["chunks"]["allocated"], 6 * 3);
    assert!(chunked["ratio"].as_f64().unwrap() > 2.0, "{chunked}");
    let flat = variable("flat");
    assert_eq!((&flat["storage"], &flat["stored"]), (&json!("contiguous"), &json!(320)));
    assert!(flat.get("chunks").is_none() && flat.get("ratio").is_none());
    let summed = &variable("summed")["chunks"];
    // 9 integers and a checksum.
    assert_eq!(
        (&summed["smallest"], &summed["median"], &summed["largest"]),
        (&json!(40), &json!(40), &json!(40))
    );

    let output = striate([OsStr::new("info"), OsStr::new("--chunks"), path.as_os_str()]);
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    for part in
        ["netCDF-4 (HDF5), superblock version", "t (unlimited)", "7 × 11", "deflate 3", "B-tree 1"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(" of ") && text.contains("begin on a stripe"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// Without another word, stripes are those of the file: our copy begins each chunk on one.
#[test]
fn stripes_of_files_on_servers_are_known() {
    let (directory, servers) = (tempfile::tempdir().unwrap(), Embedded::start(2).unwrap());
    let text =
        "netcdf s { dimensions: t = 4 ; x = 300000 ; variables: int v(t, x) ; int w(t, x) ; }";
    let path = generate(directory.path(), "s.nc", "nc4", text).unwrap();
    let url = format!("{}/s.nc", servers.url());
    let options = ["copy", "--chunks", "t/1,x/300000"].map(OsStr::new);
    let copied = striate(options.into_iter().chain([path.as_os_str(), OsStr::new(&url)]));
    assert!(copied.status.success(), "{}", told(&copied));
    let stored = RemoteFile::open(&url.parse().unwrap(), &RemoteOptions::default()).unwrap();
    let stripe = stored.capabilities().stripe_unit.unwrap();
    let output = striate(["info", "--chunks", "--json", &url]);
    assert!(output.status.success(), "{}", told(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &document["rows"][0];
    assert_eq!(row["stripe"], stripe);
    for variable in row["variables"].as_array().unwrap() {
        let chunks = &variable["chunks"];
        assert_eq!((&chunks["allocated"], &chunks["bytes"]), (&json!(4), &json!(4_800_000)));
        assert_eq!(chunks["aligned"], 4, "{row}");
    }
}
