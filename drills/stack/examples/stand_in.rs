//! Stands in for any program of the system in the supervisor's tests: linked under the name of a service, the provider
//! or the broker, it listens where it is told to and says that it is ready.
//!
//! A file `<name>.behaviour` beside it makes it misbehave: `exit` (says why and ends at once), `unready` (503 for ever),
//! `stubborn` (needs SIGKILL).

use std::{
    env, fs,
    io::{Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::ExitCode,
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let me = PathBuf::from(env::args_os().next().unwrap_or_default());
    let behaviour = fs::read_to_string(me.with_extension("behaviour")).unwrap_or_default();
    match behaviour.trim() {
        "exit" => {
            eprintln!("PAYMENT_METHODS: is not a number");
            return ExitCode::from(3);
        }
        "stubborn" => {
            let stubborn = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // A handler that is never asked: SIGTERM then does nothing.
            let listening = stubborn.as_ref().map(|runtime| {
                let _enter = runtime.enter();
                signal(SignalKind::terminate())
            });
            serve_all("200 OK");
            drop(listening);
        }
        "unready" => serve_all("503 Service Unavailable"),
        _ => serve_all("200 OK"),
    }
    ExitCode::SUCCESS
}

/// For ever, or until stdin closes where the command line is a broker's.
fn serve_all(status: &'static str) {
    let from_env = ["API_ADDR", "ADMIN_ADDR"].into_iter().filter_map(|name| env::var(name).ok());
    let args: Vec<String> = env::args().collect();
    let from_args =
        args.windows(2).filter(|pair| ["--listen", "--admin"].contains(&pair[0].as_str())).map(|pair| pair[1].clone());
    let listening: Vec<_> = from_env
        .chain(from_args)
        .map(|address| {
            let listener = match TcpListener::bind(&address) {
                Ok(listener) => listener,
                Err(e) => {
                    eprintln!("{address}: {e}");
                    std::process::exit(1);
                }
            };
            thread::spawn(move || serve(&listener, status))
        })
        .collect();
    if args[0].ends_with("broker") {
        let mut nothing = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut nothing);
        return;
    }
    for thread in listening {
        let _ = thread.join();
    }
}

fn serve(listener: &TcpListener, status: &str) {
    for mut stream in listener.incoming().flatten() {
        let mut request = [0; 2048];
        let _ = stream.read(&mut request);
        let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
}
