//! The processes at the other end of a connection on this host, as `/proc` shows them (proc(5), `net/tcp`).

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;

use crate::session::processes;

/// The holders of the other end of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// Another host, or a process of another account.
    Others,
    /// These processes of this account. None if the end was closed, or is on its way from one process to another.
    Here(Vec<i32>),
}

/// The processes that have the end `peer` of the connection from `peer` to `own` open.
pub(crate) fn holders(peer: SocketAddr, own: SocketAddr) -> Holders {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (peer, own) = (plain(peer), plain(own));
    // An address can be bound only on the host that has it.
    if UdpSocket::bind((peer.ip(), 0)).is_err() {
        return Holders::Others;
    }
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let Some((account, inode)) = tables.iter().find_map(|table| socket(table, peer, own)) else {
        return Holders::Here(Vec::new());
    };
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != account) {
        return Holders::Others;
    }
    let socket = format!("socket:[{inode}]");
    let has = |pid: &i32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| *target.as_os_str() == *socket)
    };
    Holders::Here(processes().unwrap_or_default().into_iter().filter(has).collect())
}

/// The account and the inode of the socket `peer` in a table. A closed one has the inode 0.
fn socket(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<(u32, u64)> {
    let (peer, own) = (written(peer), written(own));
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let has = |at: usize, names: &[String]| {
            columns.get(at).is_some_and(|it| names.iter().any(|name| name == it))
        };
        let is_it = has(1, &peer) && has(2, &own);
        if !is_it {
            return None;
        }
        Some((columns.get(7)?.parse().ok()?, columns.get(9)?.parse().ok()?))
    })
}

/// An address as the tables have it: words of four bytes in the order of this machine. A socket of the newer kind may have
/// an address of the older one.
fn written(address: SocketAddr) -> Vec<String> {
    let forms = match address.ip() {
        IpAddr::V4(ip) => vec![ip.octets().to_vec(), ip.to_ipv6_mapped().octets().to_vec()],
        IpAddr::V6(ip) => vec![ip.octets().to_vec()],
    };
    let word = |four: &[u8]| format!("{:08X}", u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
    let form = |octets: &Vec<u8>| {
        format!("{}:{:04X}", octets.chunks_exact(4).map(word).collect::<String>(), address.port())
    };
    forms.iter().map(form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn the_process_of_a_connection_is_found() {
        let ways = [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ];
        for (listen, connect) in ways {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().expect("an address").port();
            let client = TcpStream::connect((connect, port)).expect("it listens");
            let peer = client.local_addr().expect("an address");
            let (taken, seen) = listener.accept().expect("a connection");
            let own_pid = i32::try_from(std::process::id()).expect("a pid");
            let own = taken.local_addr().expect("an address");
            let Holders::Here(found) = holders(seen, own) else { panic!("{listen} {connect}") };
            assert!(found.contains(&own_pid), "{listen} {connect}: {found:?}");
            assert_eq!(holders(SocketAddr::new(peer.ip(), 1), peer), Holders::Here(Vec::new()), "{listen}");
            drop(client);
            // The child of another test has it too, from its fork until its exec.
            let closed = (0..1000).any(|_| {
                let is_closed = holders(seen, own) == Holders::Here(Vec::new());
                if !is_closed {
                    std::thread::sleep(Duration::from_millis(10));
                }
                is_closed
            });
            assert!(closed, "{listen} {connect}: it is closed");
        }
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 4173));
        assert_eq!(holders(elsewhere, elsewhere), Holders::Others);
    }
}
