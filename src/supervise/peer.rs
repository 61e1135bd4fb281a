//! The processes at the other end of a connection on this host, as `/proc` shows them (proc(5), `net/tcp`).

use std::fs;
use std::net::{IpAddr, SocketAddr};

use crate::session::processes;

/// The processes that have the end `peer` of the connection from `peer` to `own` open. None if it is another host's, or a
/// process of another account.
pub(crate) fn holders(peer: SocketAddr, own: SocketAddr) -> Vec<i32> {
    // A listener at all addresses has those of the older kind as newer ones. The client's socket has them as they are.
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (peer, own) = (plain(peer), plain(own));
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let Some(socket) = fs::read_to_string(table).ok().and_then(|table| socket(&table, peer, own)) else {
        return Vec::new();
    };
    let has = |pid: &i32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| *target.as_os_str() == *socket)
    };
    processes().unwrap_or_default().into_iter().filter(has).collect()
}

/// The name of the socket `peer` in a table.
fn socket(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<String> {
    let (peer, own) = (written(peer), written(own));
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_it = columns.get(1) == Some(&peer.as_str()) && columns.get(2) == Some(&own.as_str());
        let inode = columns.get(9).filter(|inode| is_it && **inode != "0")?;
        Some(format!("socket:[{inode}]"))
    })
}

/// An address as the table has it: words of four bytes in the order of this machine.
fn written(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets
        .chunks_exact(4)
        .map(|four| format!("{:08X}", u32::from_ne_bytes([four[0], four[1], four[2], four[3]])));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_process_of_a_connection_is_found() {
        for (listen, connect) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1")] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().expect("an address").port();
            let client = TcpStream::connect((connect, port)).expect("it listens");
            let peer = client.local_addr().expect("an address");
            let (taken, seen) = listener.accept().expect("a connection");
            let own_pid = i32::try_from(std::process::id()).expect("a pid");
            assert_eq!(holders(seen, taken.local_addr().expect("an address")), [own_pid], "{listen}");
            assert!(holders(SocketAddr::new(peer.ip(), 1), peer).is_empty(), "{listen}");
        }
    }
}
