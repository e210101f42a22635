//! The figures of the gateway, read from its file: they hold whether or not there is an Envoy here.

use std::{collections::BTreeSet, fs, time::Duration};

use chassis::{dev_secrets, extract::MAX_BODY};
use contracts::Problem;
use gateway::{CONFIGURATION, START};
use rules::Rules;

use crate::running::checkout;

fn text() -> String {
    fs::read_to_string(checkout().join(CONFIGURATION)).unwrap()
}

/// The values that stand behind this key, in either form of YAML, in the order of the file.
fn values(text: &str, key: &str) -> Vec<String> {
    let mark = format!("{key}: ");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let in_line = |line: &str| -> Vec<String> {
        let whole = |at: usize| line[..at].is_empty() || line[..at].ends_with([' ', '{', '[']);
        let starts = line.match_indices(&mark).map(|(at, _)| at).filter(|at| whole(*at));
        let value = |at: usize| line[at + mark.len()..].split([',', '}', ']', ' ']).next().unwrap().to_owned();
        starts.map(value).collect()
    };
    lines.flat_map(in_line).collect()
}

#[test]
fn every_route_to_order_waits_as_long_as_the_rules_say() {
    let text = text();
    let routes: Vec<&str> = text.split("cluster: order").skip(1).collect();
    assert_eq!(routes.len(), 5);
    assert_eq!(Rules::default().gateway.timeout, Duration::from_secs(5));
    for route in routes {
        assert_eq!(values(&format!(" {route}"), "timeout")[0], "5s");
    }
}

#[test]
fn each_limit_is_one_and_a_half_times_the_peak_that_is_expected() {
    let text = text();
    let (mut lines, mut limited) = (text.lines(), 0);
    while let Some(line) = lines.next() {
        let Some((_, peak)) = line.split_once("# Expected peak ") else { continue };
        let peak: u64 = peak.split(' ').next().unwrap().parse().unwrap();
        let bucket = lines.find(|line| line.contains("token_bucket:")).unwrap();
        for (key, value) in [("max_tokens", peak * 3 / 2), ("tokens_per_fill", peak * 3 / 2)] {
            assert_eq!(values(bucket, key), [value.to_string()], "{bucket}");
        }
        assert_eq!(values(bucket, "fill_interval"), ["1s"]);
        limited += 1;
    }
    assert_eq!(limited, 6, "five APIs, and a tenant");
    // It is the service that explains its refusals.
    let orders = text.lines().skip_while(|line| !line.contains("key: api, value: place_order")).nth(1).unwrap();
    let quota = Rules::default().quota["orders"].limit;
    assert!(values(orders, "tokens_per_fill")[0].parse::<u32>().unwrap() >= quota, "{orders}");
}

#[test]
fn every_api_that_a_route_names_has_a_limit_and_every_tenant_that_order_knows_finds_room() {
    let text = text();
    let of_routes: Vec<String> =
        text.lines().filter(|line| line.contains("filter_metadata")).flat_map(|line| values(line, "api")).collect();
    let limited: Vec<String> =
        text.lines().filter(|line| line.contains("key: api, value")).flat_map(|line| values(line, "value")).collect();
    assert_eq!(of_routes.len(), 5);
    assert_eq!(of_routes.iter().collect::<BTreeSet<_>>(), limited.iter().collect::<BTreeSet<_>>());
    let tenants = Rules::default().key_limits.tenant.max_keys;
    assert_eq!(values(&text, "max_dynamic_descriptors"), [tenants.to_string()]);
}

#[test]
fn without_a_secret_the_gateway_takes_the_one_that_the_services_take_and_only_where_they_do() {
    let start = fs::read_to_string(checkout().join(START)).unwrap();
    assert!(start.contains(&format!("\n  secret={}\n", dev_secrets::AUTH_JWT_SECRET)));
    let refused = std::process::Command::new("sh")
        .arg(checkout().join(START))
        .env("ENVOY", "true")
        .env_remove("APP_ENV")
        .env_remove("AUTH_JWT_SECRET")
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("AUTH_JWT_SECRET is required"), "{said}");
}

#[test]
fn what_may_be_on_its_way_and_when_an_instance_is_left_alone_is_as_agreed() {
    let text = text();
    for (key, value) in [
        ("max_connections", "100"),
        ("max_pending_requests", "50"),
        ("max_requests", "200"),
        ("consecutive_5xx", "5"),
        ("enforcing_consecutive_5xx", "100"),
        ("consecutive_gateway_failure", "3"),
        ("enforcing_consecutive_gateway_failure", "100"),
        ("enforcing_success_rate", "0"),
        ("base_ejection_time", "30s"),
        ("max_ejection_time", "30s"),
        ("always_eject_one_host", "false"),
        ("successful_active_health_check_uneject_host", "false"),
    ] {
        assert_eq!(values(&text, key), [value], "{key}");
    }
    // Of order, and of Envoy's own administration.
    assert_eq!(values(&text, "connect_timeout"), ["2s", "1s"]);
    assert_eq!(values(&text, "max_request_bytes"), [MAX_BODY.to_string()]);
}

#[test]
fn an_instance_is_left_alone_only_where_three_others_are_left() {
    let share: usize = values(&text(), "max_ejection_percent")[0].parse().unwrap();
    for instances in 1..=30 {
        let ejected = instances * share / 100;
        assert!(ejected == 0 || instances - ejected >= 3, "{ejected} of {instances}");
    }
    assert_eq!(4 * share / 100, 1, "of four one may be");
}

#[test]
fn only_reads_are_asked_again_after_they_were_sent_and_all_of_it_under_a_budget() {
    let text = text();
    let (unsent, unanswered) = ("connect-failure,refused-stream", "connect-failure,refused-stream,reset");
    let tried: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("retry_on: ")).collect();
    assert_eq!(tried, [unsent, unanswered, unanswered]);
    for route in text.split("match: ").skip(1).filter(|route| route.contains(unanswered)) {
        assert!(route.contains("exact: GET"), "{route}");
    }
    assert_eq!(values(&text, "num_retries"), ["1"; 3]);
    assert!(text.contains("retry_budget: { budget_percent: { value: 20 }, min_retry_concurrency: 3 }"));
}

#[test]
fn every_refusal_is_a_problem_as_the_services_give_it() {
    let text = text();
    let mut problems = 0;
    for mapper in text.split("- filter: {").skip(1) {
        let line = mapper.lines().find_map(|line| line.trim().strip_prefix("inline_string: '")).unwrap();
        let problem: Problem = serde_json::from_str(line.strip_suffix('\'').unwrap()).unwrap();
        assert_eq!((problem.status, problem.title.as_str()), (problem.kind.status(), problem.kind.title()));
        assert_eq!(problem.retryable, problem.kind.retryable(), "{line}");
        assert_eq!(problem.mechanism.is_some(), problem.retryable, "{line}");
        assert_eq!(problem.retry_after_ms, problem.retryable.then_some(Problem::DEFAULT_RETRY_AFTER_MS), "{line}");
        let told = problem.retry_after_seconds().map(|seconds| format!("key: retry-after, value: \"{seconds}\""));
        let own = mapper.split("\n    - name: watch").next().unwrap();
        assert_eq!(own.contains("retry-after"), told.is_some(), "{line}");
        assert!(told.is_none_or(|told| own.contains(&told)), "{line}");
        problems += 1;
    }
    assert_eq!(problems, 11);
}
