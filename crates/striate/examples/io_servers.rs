//! I/O servers: a file striped over four servers, accessed by all ranks as any other file.
//!
//! The servers run within this program, which the feature `servers` allows. With the URL of servers
//! elsewhere as its argument (`striate serve` starts them) the program uses those instead.

use std::error::Error;

use striate::prelude::*;

/// Rows of a rank, and bytes of a row.
const ROWS: u64 = 256;
const ROW: u64 = 1024;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // A directory, as the other examples take it, means nothing here.
    let given = std::env::args().nth(1).filter(|text| RemoteUrl::is_remote(text));

    striate::run(4, |comm| -> Result<(), Box<dyn Error + Send + Sync>> {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);

        // Rank 0 starts the servers and tells the other ranks where they are.
        let embedded = match &given {
            None if rank == 0 => Some(Embedded::start(4)?),
            _ => None,
        };
        let mut address = match &given {
            Some(url) => url.clone().into_bytes(),
            None => embedded.as_ref().map(Embedded::url).unwrap_or_default().into_bytes(),
        };
        comm.broadcast(0, &mut address)?;
        let address = String::from_utf8(address)?;

        // Rows are dealt to the ranks in turn. One request describes all of them to a server, which
        // finds the bytes by itself.
        let byte = Datatype::from(Element::U8);
        let every_nth = Datatype::resized(&Datatype::bytes(ROW)?, 0, (ranks * ROW) as i64)?;
        let hints: Hints = "striping_factor=4;striping_unit=64KiB".parse()?;
        let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
        let mut file = File::open(&comm, format!("{address}/run/field"), mode, &hints)?;
        file.set_view(View::new(rank * ROW, &byte, &every_nth)?)?;
        let mine = vec![rank as u8; (ROWS * ROW) as usize];
        file.write_at_all(0, &mine)?;
        let mut back = vec![u8::MAX; mine.len()];
        file.read_at_all(0, &mut back)?;
        assert_eq!(back, mine);
        let stats = file.stats();
        file.close()?;

        // The client lists, renames and removes files, and asks servers about themselves.
        if rank == 0 {
            let client = Client::shared(&address.parse()?)?;
            let files = client.list("run/")?;
            assert_eq!(files.len(), 1);
            assert_eq!(client.stat("run/field")?.size, ranks * ROWS * ROW);
            client.remove("run/field")?;
            let (servers, operations) = (client.servers()?.len(), stats.operations);
            println!(
                "verified: {ranks} ranks on {servers} servers, {operations} requests of rank 0"
            );
        }
        // Servers within rank 0 stay until all ranks are done.
        comm.barrier()?;
        drop(embedded);
        Ok(())
    })
    .map(drop)
}
