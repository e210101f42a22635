//! The command line of `./dev`.
//!
//! Only what works is listed: a command that does not exist yet is an unknown command.

mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use contracts::service::{DEFAULT_PORT_BASE, Service};

use self::values::port_base;
pub use self::values::{Kafka, Replicas, Setting, Target};

#[derive(Debug, Parser)]
#[command(name = "dev", bin_name = "./dev", about = "Runs the whole system on this machine.", max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything, and stop it again on Ctrl-C.
    Up(Up),
    /// Stop the running system; its data stays.
    Down {
        #[arg(long, value_name = "N", value_parser = port_base)]
        port_base: Option<u16>,
        /// Also remove its data, ledgers and logs.
        #[arg(long)]
        wipe: bool,
    },
    /// Show what runs. Exit code 0: all ready, 1: something is not, 3: nothing runs; with --json always 0.
    Status {
        #[arg(long, value_name = "N", value_parser = port_base)]
        port_base: Option<u16>,
        #[arg(long)]
        json: bool,
    },
    /// Print the logs of one process, or of all.
    Logs {
        /// For example `order`, `order:1`, `postgres`.
        service: Option<Target>,
        /// Go on printing what is added.
        #[arg(long, short)]
        follow: bool,
        /// How many lines of each log to begin with.
        #[arg(long, short = 'n', default_value_t = 50)]
        lines: usize,
        #[arg(long, value_name = "N", value_parser = port_base)]
        port_base: Option<u16>,
    },
    /// Print a token, good for twelve hours.
    Token(Token),
    /// Stop one process and start it again.
    Restart {
        /// For example `order`, `order:1`, `postgres`.
        name: Target,
        /// With SIGKILL instead of SIGTERM.
        #[arg(long)]
        kill: bool,
        /// For this one life, also over what it has otherwise; may be repeated. CRASH_AT=POINT arms a crash point.
        #[arg(long, value_name = "NAME=VALUE")]
        env: Vec<Setting>,
        #[arg(long, value_name = "N", value_parser = port_base)]
        port_base: Option<u16>,
    },
    /// Look after rules files, and after the versions that the console has.
    #[command(subcommand)]
    Rules(Rules),
    /// Look after dead letters: messages that a consumer could not use.
    #[command(subcommand)]
    Dlq(Dlq),
    /// Wait until nothing moves any more, and check the nine invariants on the databases, the provider's ledgers and
    /// what clients were answered. Exit code 0: they hold, 1: one is violated, 2: could not look.
    Oracle(Oracle),
    /// Format, lints and all tests, on a private PostgreSQL and Redis.
    Test {
        /// Leave out the end-to-end test and real Kafka.
        #[arg(long, conflicts_with = "full")]
        fast: bool,
        /// Add what takes too long for every day.
        #[arg(long)]
        full: bool,
    },
    /// Run a command with PostgreSQL and Redis of its own: TEST_DATABASE_URL and TEST_REDIS_URL name them.
    #[command(hide = true)]
    WithStores {
        dir: PathBuf,
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, Subcommand)]
pub enum Rules {
    /// Say everything that is wrong with a rules file. Exit code 0: it is valid, 1: it is not.
    Check { file: PathBuf },
    /// List the versions, newest first, and what each instance runs on.
    List {
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        to: Console,
    },
    /// Publish a file as a new version. It is a draft, and in force nowhere.
    Publish {
        file: PathBuf,
        /// Whom to ask about it; by default whoever publishes.
        #[arg(long, value_name = "WHO")]
        owner: Option<String>,
        /// The newest version that you have seen; by default the newest that there is.
        #[arg(long, value_name = "VERSION")]
        based_on: Option<i64>,
        #[command(flatten)]
        act: Act,
    },
    /// Try a version out on some instances.
    Canary {
        version: i64,
        /// By name; several separated by commas.
        #[arg(long = "to", value_name = "INSTANCE", value_delimiter = ',', required = true)]
        instances: Vec<String>,
        #[command(flatten)]
        act: Act,
    },
    /// Put a version in force everywhere; by default the one that is tried out, or else the newest.
    Promote {
        version: Option<i64>,
        #[command(flatten)]
        act: Act,
    },
    /// Take a version back; by default the one that is tried out, or else the one in force.
    Rollback {
        version: Option<i64>,
        #[command(flatten)]
        act: Act,
    },
    /// Turn a switch, at once and everywhere.
    Switch {
        feature: String,
        value: String,
        #[command(flatten)]
        act: Act,
    },
}

/// Who acts, and why.
#[derive(Debug, Clone, Args)]
pub struct Act {
    /// For the history.
    #[arg(long, value_name = "TEXT", default_value = "by ./dev rules")]
    pub reason: String,
    #[command(flatten)]
    pub to: Console,
}

/// Which console, and as whom.
#[derive(Debug, Clone, Args)]
pub struct Console {
    /// Your name in the history; by default the one of your account.
    #[arg(long, value_name = "NAME")]
    pub operator: Option<String>,
    /// Of a system that was started otherwise, such as containers.
    #[arg(long, value_name = "URL")]
    pub console: Option<String>,
    #[arg(long, value_name = "N", value_parser = port_base)]
    pub port_base: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub enum Dlq {
    /// List them, with who gave each up and why. Exit code 0, whether or not there are any.
    List {
        /// Only those of one topic, for example `orders` or `orders.dlq`.
        #[arg(long, value_name = "T")]
        topic: Option<String>,
        #[arg(long)]
        json: bool,
        #[arg(long, value_name = "N", value_parser = port_base)]
        port_base: Option<u16>,
    },
    /// Send them to the topics that they came from, as they were. What was sent is remembered.
    Replay {
        #[arg(long, value_name = "T")]
        topic: Option<String>,
        /// Those of one event, whether or not they were sent before.
        #[arg(long, value_name = "EVENT_ID", required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All that were not sent before.
        #[arg(long)]
        all: bool,
        #[arg(long, value_name = "N", value_parser = port_base)]
        port_base: Option<u16>,
    },
}

#[derive(Debug, Clone, Args)]
pub struct Oracle {
    /// What clients were answered, a JSON line each, as `load --answers` writes it; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub answers: Vec<PathBuf>,
    /// How many seconds to wait until nothing moves. What moves then is reported, and judged as it stands.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub quiet_within: u64,
    /// Look at a system that was started otherwise, such as containers: its databases are on this server, its ledgers
    /// and its Kafka where the port base has them.
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    #[arg(long)]
    pub json: bool,
    #[arg(long, value_name = "N", value_parser = port_base)]
    pub port_base: Option<u16>,
}

#[derive(Debug, Clone, Args)]
pub struct Up {
    /// Return when everything is ready, and leave it running; `down` stops it.
    #[arg(long)]
    pub detach: bool,
    /// Without links, the fault proxies that otherwise stand in front of every hop.
    #[arg(long)]
    pub direct: bool,
    /// A Kafka that runs already, or `docker` for the compose file's; otherwise an embedded broker.
    #[arg(long, value_name = "HOST:PORT|docker", default_value = "embedded", hide_default_value = true)]
    pub kafka: Kafka,
    /// Move all ports by N - 8080.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PORT_BASE, value_parser = port_base)]
    pub port_base: u16,
    /// More than one process of a service; may be repeated.
    #[arg(long, value_name = "SERVICE=COUNT", value_delimiter = ',')]
    pub replicas: Vec<Replicas>,
    /// With Envoy in front of order, 80 below the port base. ENVOY names its program, unless it is in the search path.
    #[arg(long)]
    pub gateway: bool,
    /// Start a process again that died by itself.
    #[arg(long)]
    pub keep: bool,
    /// Without the console, which nothing needs.
    #[arg(long)]
    pub no_console: bool,
    /// Without Redis: the system runs degraded.
    #[arg(long)]
    pub no_redis: bool,
    /// With rules under which nothing refuses, no breaker opens and nobody gives up early: what the guards are for.
    #[arg(long)]
    pub no_guards: bool,
    /// The half of `--detach` that stays.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,
}

impl Up {
    pub fn replicas_of(&self, service: Service) -> u16 {
        self.replicas.iter().rev().find(|r| r.service == service).map_or(1, |r| r.count)
    }

    /// The arguments for the background half of `up --detach`.
    pub fn background_args(&self) -> Vec<String> {
        let mut args = vec![
            "up".to_owned(),
            "--background".to_owned(),
            format!("--kafka={}", self.kafka.as_text()),
            format!("--port-base={}", self.port_base),
        ];
        args.extend(self.replicas.iter().map(|r| format!("--replicas={}={}", r.service, r.count)));
        args.extend(self.direct.then(|| "--direct".to_owned()));
        args.extend(self.gateway.then(|| "--gateway".to_owned()));
        args.extend(self.keep.then(|| "--keep".to_owned()));
        args.extend(self.no_console.then(|| "--no-console".to_owned()));
        args.extend(self.no_redis.then(|| "--no-redis".to_owned()));
        args.extend(self.no_guards.then(|| "--no-guards".to_owned()));
        args
    }
}

#[derive(Debug, Clone, Args)]
pub struct Token {
    /// A UUID, or a name from which one is made.
    #[arg(long, value_name = "U", default_value = "demo")]
    pub user: String,
    #[arg(long, value_name = "T")]
    pub tenant: Option<String>,
    #[arg(long, value_name = "TIER")]
    pub tier: Option<String>,
    /// For the operators' interfaces instead of a user's.
    #[arg(long)]
    pub operator: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn up(args: &[&str]) -> Up {
        match Cli::try_parse_from(["dev", "up"].iter().chain(args)).unwrap().command {
            Command::Up(up) => up,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn replicas_default_to_one_and_the_last_word_counts() {
        assert_eq!(up(&[]).replicas_of(Service::Order), 1);
        let up = up(&["--replicas", "order=2,payment=3", "--replicas", "order=4"]);
        assert_eq!((up.replicas_of(Service::Order), up.replicas_of(Service::Payment)), (4, 3));
    }

    #[test]
    fn replicas_outside_the_port_scheme_are_refused() {
        for bad in ["order", "order=0", "order=11", "mail=1", "order=x"] {
            assert!(Cli::try_parse_from(["dev", "up", "--replicas", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_replay_names_an_event_or_all_and_not_both() {
        let parse = |args: &[&str]| Cli::try_parse_from(["dev", "dlq", "replay"].iter().chain(args));
        assert!(parse(&["--all", "--topic", "orders"]).is_ok() && parse(&["--id", "x"]).is_ok());
        assert!(parse(&[]).is_err() && parse(&["--all", "--id", "x"]).is_err());
    }

    #[test]
    fn a_setting_is_a_name_and_a_value_that_may_hold_anything() {
        let parse = |text: &str| Cli::try_parse_from(["dev", "restart", "order", "--env", text]);
        match parse("A=b=c").unwrap().command {
            Command::Restart { env, .. } => assert_eq!((env[0].name.as_str(), env[0].value.as_str()), ("A", "b=c")),
            other => panic!("{other:?}"),
        }
        assert!(parse("A").is_err() && parse("=b").is_err());
    }

    #[test]
    fn kafka_is_embedded_docker_or_an_address() {
        assert_eq!(up(&[]).kafka, Kafka::Embedded);
        assert_eq!(up(&["--kafka", "docker"]).kafka, Kafka::Docker);
        assert_eq!(up(&["--kafka", "localhost:9092"]).kafka, Kafka::External("localhost:9092".into()));
        assert!(Cli::try_parse_from(["dev", "up", "--kafka", "nowhere"]).is_err());
    }

    #[test]
    fn the_background_half_gets_the_same_options() {
        let wiring = ["--detach", "--kafka", "h:1", "--port-base", "12000", "--replicas", "order=2"];
        let front = up(&[&wiring[..], &["--keep", "--direct", "--gateway", "--no-guards"]].concat());
        let args = front.background_args();
        let back = up(&args[1..].iter().map(String::as_str).collect::<Vec<_>>());
        assert!(back.background && !back.detach && back.keep && back.direct && back.no_guards && !back.no_redis);
        assert!(back.gateway && !up(&[]).gateway);
        assert_eq!((back.kafka, back.port_base, back.replicas), (front.kafka, 12_000, front.replicas));
    }

    #[test]
    fn a_port_base_that_pushes_a_port_over_the_end_is_refused() {
        assert!(Cli::try_parse_from(["dev", "up", "--port-base", "60000"]).is_err());
        assert!(Cli::try_parse_from(["dev", "up", "--port-base", "80"]).is_err());
    }
}
