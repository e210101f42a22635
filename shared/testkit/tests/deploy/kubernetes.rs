//! What Kubernetes is told, as the files say it before kustomize puts them together: `./dev test` validates the result
//! against the schemas of Kubernetes where it can.

use std::{
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use contracts::Service;
use rules::Rules;
use serde_json::{Value, json};

use crate::{
    checkout, exported,
    yaml::{document, documents, items, read, text},
};

const FOLDER: &str = "deploy/k8s";
/// Connections that PostgreSQL keeps for superusers, and some for people and backups.
const RESERVED: u64 = 3 + 10;

fn deployment() -> Value {
    document(&format!("{FOLDER}/base/deployment.yml"))
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn variable<'a>(container: &'a Value, name: &str) -> &'a Value {
    items(&container["env"]).find(|variable| variable["name"] == name).unwrap_or_else(|| panic!("{name} is not set"))
}

/// What a service's kustomization changes of the base's Deployment.
pub fn own_part(service: Service) -> Value {
    let file = document(&format!("{FOLDER}/services/{service}/kustomization.yml"));
    let patches = items(&file["patches"]).map(|patch| text(&patch["patch"]));
    let mut own = patches.flat_map(|patch| read(patch, service.as_str())).filter(|patch| patch["kind"] == "Deployment");
    own.next().unwrap()
}

pub fn own_container(service: Service) -> Value {
    container(&own_part(service)).clone()
}

/// All manifests and kustomizations, by file.
fn manifests() -> Vec<(PathBuf, Value)> {
    let (mut open, mut found) = (vec![checkout().join(FOLDER)], Vec::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "yml") {
            let file = path.strip_prefix(checkout()).unwrap().to_str().unwrap().to_owned();
            found.extend(documents(&file).into_iter().map(|document| (path.clone(), document)));
        }
    }
    found
}

#[test]
fn every_service_stands_on_the_base_under_its_own_name() {
    let listed = document(&format!("{FOLDER}/kustomization.yml"));
    for service in Service::ALL {
        let name = service.as_str();
        assert!(items(&listed["resources"]).any(|resource| text(resource) == format!("services/{name}")), "{name}");
        let file = document(&format!("{FOLDER}/services/{name}/kustomization.yml"));
        assert_eq!(file["resources"], json!(["../../base"]), "{name}");
        assert_eq!(file["labels"][0]["pairs"]["app.kubernetes.io/name"], name);
        assert_eq!(own_container(service)["command"], json!([name]));
        for secret in ["INTERNAL_TOKEN", "DATABASE_URL"] {
            assert_eq!(variable(&own_container(service), secret)["valueFrom"]["secretKeyRef"]["name"], name);
        }
    }
}

#[test]
fn a_pod_is_replaced_one_at_a_time_and_has_time_to_go() {
    let deployment = deployment();
    let (rolling, pod) = (&deployment["spec"]["strategy"]["rollingUpdate"], &deployment["spec"]["template"]["spec"]);
    assert_eq!(rolling, &json!({"maxSurge": 1, "maxUnavailable": 1}));
    assert_eq!(container(&deployment)["lifecycle"]["preStop"]["sleep"]["seconds"], 15);
    assert_eq!(pod["terminationGracePeriodSeconds"], 40);
    let millis = |name| text(&variable(container(&deployment), name)["value"]).parse::<u64>().unwrap();
    let needs = 15_000 + millis("DRAIN_NOTICE_MS") + millis("SHUTDOWN_TIMEOUT_MS");
    assert!(needs + 5_000 <= 40_000, "{needs} ms and a margin do not fit into the grace");
}

#[test]
fn probes_ask_the_admin_port_and_only_readiness_asks_for_the_database() {
    let deployment = deployment();
    let container = container(&deployment);
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({"path": path, "port": "admin"}), "{probe}");
    }
    let ports: Vec<(&str, u64)> =
        items(&container["ports"]).map(|port| (text(&port["name"]), port["containerPort"].as_u64().unwrap())).collect();
    assert_eq!(ports, [("api", 8080), ("admin", 9080)]);
    for (name, port) in [("API_ADDR", 8080), ("ADMIN_ADDR", 9080)] {
        assert_eq!(text(&variable(container, name)["value"]), format!("0.0.0.0:{port}"));
    }
}

#[test]
fn a_pod_may_do_nothing_that_it_does_not_need() {
    let deployment = deployment();
    let (pod, container) = (&deployment["spec"]["template"]["spec"], container(&deployment));
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let user = fs::read_to_string(checkout().join("deploy/Dockerfile")).unwrap();
    assert!(user.contains(&format!("USER {0}:{0}", pod["securityContext"]["runAsUser"])), "the image has another user");
    let expected = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}
    });
    assert_eq!(container["securityContext"], expected);
    assert!(
        container["resources"]["limits"]["memory"].is_string() && container["resources"]["requests"]["cpu"].is_string()
    );
}

#[test]
fn secrets_are_referred_to_and_stand_nowhere() {
    let is_secret = |name: &str| ["SECRET", "TOKEN", "PASSWORD", "DATABASE_URL"].iter().any(|word| name.contains(word));
    let (base, mut seen) = (deployment(), 0);
    for container in [container(&base).clone()].into_iter().chain(Service::ALL.map(own_container)) {
        for variable in items(&container["env"]).filter(|variable| is_secret(text(&variable["name"]))) {
            seen += 1;
            assert!(variable["valueFrom"]["secretKeyRef"].is_object() && variable["value"].is_null(), "{variable}");
        }
    }
    assert_eq!(seen, 4 + 5 * 2 + 1, "the base's, each service's two, and payment's webhooks");
    for (file, document) in manifests() {
        assert!(document["kind"] != "Secret" && document["secretGenerator"].is_null(), "{}", file.display());
    }
}

#[test]
fn the_console_is_one_pod_confined_as_the_others_that_each_of_them_asks() {
    let (base, console) = (deployment(), document(&format!("{FOLDER}/console/deployment.yml")));
    let listed = document(&format!("{FOLDER}/kustomization.yml"));
    assert!(items(&listed["resources"]).any(|resource| resource == "console"));
    assert_eq!((&console["spec"]["replicas"], &container(&console)["command"]), (&json!(1), &json!(["console"])));
    assert_eq!(variable(container(&base), "CONSOLE_URL")["value"], "http://console");
    assert_eq!(document(&format!("{FOLDER}/console/service.yml"))["metadata"]["name"], "console");
    for same in ["ports", "securityContext", "startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container(&console)[same], container(&base)[same], "{same}");
    }
    let pod = &console["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["automountServiceAccountToken"], &pod["securityContext"]["runAsNonRoot"]),
        (&false.into(), &true.into())
    );
    for secret in ["AUTH_JWT_SECRET", "INTERNAL_TOKENS", "INTERNAL_TOKEN", "DATABASE_URL", "CONSOLE_OPERATORS"] {
        let variable = variable(container(&console), secret);
        assert!(variable["valueFrom"]["secretKeyRef"].is_object() && variable["value"].is_null(), "{variable}");
    }
}

#[test]
fn the_console_finds_the_pods_of_every_service_ready_or_not() {
    let (headless, console) =
        (documents(&format!("{FOLDER}/instances.yml")), document(&format!("{FOLDER}/console/deployment.yml")));
    let listed = document(&format!("{FOLDER}/kustomization.yml"));
    assert!(items(&listed["resources"]).any(|resource| resource == "instances.yml"));
    let targets = text(&variable(container(&console), "CONSOLE_TARGETS")["value"]);
    let watched: Vec<&str> = targets.split(',').map(str::trim).collect();
    assert_eq!(watched, Service::ALL.map(|service| format!("{service}=http://{service}-instances:9080")));
    assert_eq!(headless.len(), Service::ALL.len());
    for (service, headless) in Service::ALL.into_iter().zip(&headless) {
        assert_eq!(headless["metadata"]["name"], format!("{service}-instances"));
        let expected = json!({
            "clusterIP": "None", "publishNotReadyAddresses": true,
            "selector": {"app.kubernetes.io/name": service.as_str()},
            "ports": [{"name": "admin", "port": 9080, "targetPort": "admin"}]
        });
        assert_eq!(headless["spec"], expected, "{service}");
    }
}

#[test]
fn rules_arrive_through_a_folder_whose_name_stays_and_would_come_into_force() {
    let deployment = deployment();
    let container = container(&deployment);
    let mount = items(&container["volumeMounts"]).find(|mount| mount["name"] == "rules").unwrap();
    let file = Path::new(text(&variable(container, "RULES_FILE")["value"]));
    assert_eq!(file.parent(), Some(Path::new(text(&mount["mountPath"]))));
    assert!(mount["subPath"].is_null(), "a file that is mounted by itself never changes");
    let root = document(&format!("{FOLDER}/kustomization.yml"));
    let generated = items(&root["configMapGenerator"]).find(|map| map["name"] == "rules").unwrap();
    assert_eq!(generated["files"], json!([file.file_name().unwrap().to_str().unwrap()]));
    assert_eq!(generated["options"]["disableNameSuffixHash"], true);
    assert!(deployed_rules().version > 0);
}

fn deployed_rules() -> Rules {
    let text = fs::read_to_string(checkout().join(FOLDER).join("rules.toml")).unwrap();
    Rules::from_toml(&text).unwrap()
}

#[test]
fn all_replicas_together_fit_their_database() {
    let (deployment, scaler) = (deployment(), document(&format!("{FOLDER}/base/autoscaler.yml")));
    let pool =
        deployed_rules().database.pool.map(NonZeroU32::get).expect("a pool that does not follow the node's cores");
    let surge = deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"].as_u64().unwrap();
    let most = scaler["spec"]["maxReplicas"].as_u64().unwrap() + surge;
    let allowed = text(&deployment["metadata"]["annotations"]["order-system/database-max-connections"]);
    // One more each: migrations run on a connection of their own.
    let needed = most * (u64::from(pool) + 1) + RESERVED;
    assert!(needed <= allowed.parse().unwrap(), "{most} replicas need {needed} connections of {allowed}");
}

#[test]
fn replicas_follow_cpu_and_requests_in_flight_and_the_adapter_knows_the_latter() {
    let scaler = document(&format!("{FOLDER}/base/autoscaler.yml"));
    let spec = &scaler["spec"];
    assert_eq!((&spec["minReplicas"], &spec["maxReplicas"]), (&json!(6), &json!(30)));
    let [cpu, pods] = [0, 1].map(|index: usize| &spec["metrics"][index]);
    assert_eq!(cpu["resource"], json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 65}}));
    assert_eq!(pods["pods"]["target"], json!({"type": "AverageValue", "averageValue": "180"}));
    let metric = text(&pods["pods"]["metric"]["name"]);
    assert_eq!(exported::unknown(metric), [] as [&str; 0]);
    let rule = &document(&format!("{FOLDER}/adapter/config.yml"))["rules"][0];
    assert!(text(&rule["seriesQuery"]).starts_with(&format!("{metric}{{")) && rule["name"]["as"] == metric);
    let replicas = deployed_rules().quota["orders"].expected_replicas;
    assert_eq!(
        u64::from(replicas),
        spec["minReplicas"].as_u64().unwrap(),
        "what each takes of the quota without Redis"
    );
}

#[test]
fn images_have_a_version() {
    let root = document(&format!("{FOLDER}/kustomization.yml"));
    let ours = items(&root["images"]).map(|image| image["newTag"].clone());
    let others = manifests().into_iter().filter(|(_, document)| document["kind"] == "Deployment");
    let others =
        others.map(|(_, document)| container(&document)["image"].clone()).filter(|image| image != "order-system");
    for image in ours.chain(others) {
        let tag = text(&image).rsplit(':').next().unwrap();
        assert!(tag != "latest" && tag.contains('.') && !tag.contains('/'), "{image}");
    }
}
