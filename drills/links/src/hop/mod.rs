//! How a connection is carried, by protocol.

pub mod exchange;
pub mod http;
mod paced;
pub mod tcp;

use tokio::net::TcpStream;

/// Closes with RST: what was not read yet is lost to the peer, and it is told so.
fn reset(stream: TcpStream) {
    // If it cannot be set, the peer sees an ordinary end.
    let _ = stream.set_zero_linger();
}
