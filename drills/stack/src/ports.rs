//! Are the ports free, and if not, who has them?
//!
//! Asked before anything is started, so that a taken port costs one line and no half-started system.

use std::{collections::HashSet, fs, net::TcpListener, path::Path};

use anyhow::{Result, bail};

/// One port that the system is about to use.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub port: u16,
    pub by: String,
}

/// Fails with one line that names every taken port and, where it can be seen, its holder.
pub fn require_free(wanted: &[Wanted]) -> Result<()> {
    let taken: Vec<String> = wanted
        .iter()
        .filter(|w| !is_free(w.port))
        .map(|w| {
            let holder =
                holder(w.port).or_else(|| outgoing(w.port)).map_or_else(String::new, |who| format!(" by {who}"));
            format!("port {} (for {}) is taken{holder}", w.port, w.by)
        })
        .collect();
    if !taken.is_empty() {
        bail!("{}; stop it, or choose other ports with --port-base", taken.join(", "));
    }
    Ok(())
}

pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// The process that listens on a port, as far as this user may look.
fn holder(port: u16) -> Option<String> {
    let sockets: HashSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        holds_any(&entry.path().join("fd"), &sockets).then(|| {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            format!("process {pid} ({})", name.trim())
        })
    })
}

/// Nobody listens on a port from this range, and it is taken all the same.
fn outgoing(port: u16) -> Option<String> {
    let (from, to) = outgoing_range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)?;
    (from..=to).contains(&port).then(|| format!("an outgoing connection, as any port from {from} to {to} may be"))
}

fn outgoing_range(text: &str) -> Option<(u16, u16)> {
    let mut ends = text.split_whitespace().map(str::parse::<u16>);
    Some((ends.next()?.ok()?, ends.next()?.ok()?))
}

fn holds_any(fds: &Path, sockets: &HashSet<String>) -> bool {
    let Ok(entries) = fs::read_dir(fds) else { return false };
    entries
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .any(|target| target.to_str().is_some_and(|t| sockets.contains(t)))
}

/// Rows are `sl local rem st …`, the address in hexadecimal, 0A is LISTEN, and the inode is the tenth column.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.len() > 9 && row[1].ends_with(&suffix) && row[3] == "0A")
        .map(|row| row[9].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_purpose_and_its_holder() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = require_free(&[Wanted { port, by: "order".into() }]).unwrap_err().to_string();
        let expected = format!("port {port} (for order) is taken by process {} (", process::id());
        assert!(line.starts_with(&expected), "{line}");
        drop(listener);
        require_free(&[Wanted { port, by: "order".into() }]).unwrap();
    }

    #[test]
    fn the_range_of_outgoing_connections_is_read() {
        assert_eq!(outgoing_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(outgoing_range(""), None);
        assert_eq!(outgoing(1), None, "never one of a connection's own");
    }

    #[test]
    fn only_listeners_on_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 x 1 0 0 10 0\n\
             1: 0100007F:1F90 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     0        0 222 1 x 1 0 0 10 0\n\
             2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 x 1 0 0 10 0\n";
        assert_eq!(listening_inodes(table, 8080), ["111"]);
    }
}
