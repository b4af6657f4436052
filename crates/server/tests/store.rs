//! The suite of all stores, on files that are striped over servers.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::Arc;

use striate_server::Embedded;
use striate_store::conformance::{Opener, Subject, check};
use striate_store::remote::{Client, ClientOptions, Layout, RemoteFile, RemoteOptions};

/// New files on servers of their own.
struct Files {
    embedded: Embedded,
    layout: Layout,
    made: Cell<u32>,
}

impl Files {
    fn on(servers: usize, strip: u64) -> Self {
        let layout = Layout { strip, ..Layout::default() };
        Self { embedded: Embedded::start(servers).unwrap(), layout, made: Cell::default() }
    }
}

impl Subject for Files {
    fn fresh(&self) -> Opener {
        self.made.set(self.made.get() + 1);
        let address = self.embedded.servers()[0].address().to_string();
        let client = Client::connect(&address, ClientOptions::default()).unwrap();
        let url = client.url(&format!("file-{}", self.made.get()));
        let options = RemoteOptions { create: true, exclusive: false, layout: self.layout };
        Box::new(move || Arc::new(RemoteFile::open_with(&client, &url, &options).unwrap()))
    }
}

#[test]
fn one_server() {
    check(&Files::on(1, 64 << 10));
}

#[test]
fn three_servers_with_short_strips() {
    check(&Files::on(3, 512));
}

#[test]
fn four_servers() {
    check(&Files::on(4, 4096));
}
