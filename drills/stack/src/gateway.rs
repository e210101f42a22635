//! `up --gateway`: Envoy in front of order, with the configuration that the containers have.

use std::{env, fs, time::Duration};

use anyhow::{Context, Result};
use contracts::Service;
use gateway::{Instance, Places, START};

use crate::{
    account::Account,
    layout::{Checkout, Layout},
    probe::Probe,
    process::{Spec, Stage},
    token,
};

pub const NAME: &str = "gateway";

/// How long an instance of order still takes requests after it has said that it is not ready: two of the gateway's looks, one
/// second apart, and a third for a busy machine.
const DRAIN_NOTICE_MS: &str = "3000";

/// Envoy, with every replica of order behind it. It needs none of them to start.
pub fn spec(checkout: &Checkout, layout: &Layout, orders: u16) -> Result<Spec> {
    let envoy =
        gateway::program().context("there is no gateway; ./dev up --gateway gets it where there is Python's pip")?;
    let (api, admin) = (layout.gateway_port(), layout.gateway_admin_port());
    let instance =
        |k| Instance { api: Service::Order.api_port(layout.base, k), admin: Service::Order.admin_port(layout.base, k) };
    let socket = format!("@gateway-admin-{}", layout.base);
    let places = Places { gateway: api, watch: admin, socket, orders: (0..orders).map(instance).collect() };
    let file = layout.gateway_file();
    fs::write(&file, gateway::configuration(checkout.root(), &places)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let mut args = vec![checkout.root().join(START).into_os_string(), "-c".into(), file.into_os_string()];
    // Threads follow the cores otherwise; two carry more than order does.
    args.extend(["--concurrency", "2", "--log-level", "warning"].map(Into::into));
    Ok(Spec {
        name: NAME.to_owned(),
        replica: 0,
        stage: Stage::Gateway,
        program: "sh".into(),
        args,
        env: vec![
            ("APP_ENV", "dev".to_owned()),
            ("ENVOY", envoy.display().to_string()),
            ("AUTH_JWT_SECRET", token::signing_secret()),
        ],
        extra: Vec::new(),
        account: Account::Same,
        hold_stdin: false,
        log: layout.log(NAME, None),
        ready: Probe::Readyz(admin),
        patience: Duration::from_secs(20),
        api: Some(api),
        admin: Some(admin),
    })
}

/// What an instance of order is told that stands behind the gateway, unless the caller's environment says otherwise.
pub fn stand_behind(wiring: &mut Vec<(&'static str, String)>) {
    let told = [("DRAIN_NOTICE_MS", DRAIN_NOTICE_MS), ("BEHIND_GATEWAY", "true")];
    let told = told.into_iter().filter(|(name, _)| env::var_os(name).is_none());
    wiring.extend(told.map(|(name, value)| (name, value.to_owned())));
}
