//! `dlq`: the dead letters of the system that runs here.

use anyhow::{Context, Result};
use events::{
    KafkaConfig,
    dlq::{self, DeadLetter, Selection},
};

use crate::{args::Dlq, layout::Checkout, say::say, state::the_system};

/// Of a detail, in characters: the whole of it is in the JSON.
const SHOWN: usize = 100;

pub async fn run(checkout: &Checkout, wanted: &Dlq) -> Result<()> {
    match wanted {
        Dlq::List { topic, json, port_base } => {
            let letters = dlq::list(&kafka(checkout, *port_base)?, topic.as_deref()).await?;
            if *json {
                say!("{}", serde_json::to_string_pretty(&letters)?);
                return Ok(());
            }
            for letter in &letters {
                say!("{}", line(letter));
            }
            let open = letters.iter().filter(|letter| !letter.replayed).count();
            say!("{} dead letters, {open} of them not sent again", letters.len());
        }
        Dlq::Replay { topic, id, all: _, port_base } => {
            let which = id.clone().map_or(Selection::All, Selection::Event);
            let replayed = dlq::replay(&kafka(checkout, *port_base)?, topic.as_deref(), &which).await?;
            for letter in &replayed.letters {
                let (event, origin) = (event(letter), letter.origin_topic.as_deref().unwrap_or("-"));
                say!("{}[{}]@{} {event} → {origin}", letter.topic, letter.partition, letter.offset);
            }
            if replayed.without_origin > 0 {
                say!("{} do not say where they came from, and stay", replayed.without_origin);
            }
            say!("{} messages were sent again, of {} dead letters", replayed.messages, replayed.letters.len());
        }
    }
    Ok(())
}

fn kafka(checkout: &Checkout, port_base: Option<u16>) -> Result<KafkaConfig> {
    let (_, state) = the_system(checkout, port_base)?.context("nothing is running")?;
    Ok(KafkaConfig::new(state.stores.kafka_bootstrap, "dev"))
}

/// `orders.dlq[0]@7 2026-11-30T05:00:00Z coupon refused: order.confirmed 0199…: never heard of it`
fn line(letter: &DeadLetter) -> String {
    let time = letter.time.map_or_else(|| "-".to_owned(), |at| at.format("%FT%TZ").to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    // A broken message may hold anything, also what a terminal obeys.
    let detail: String = text(&letter.detail).chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    let again = if letter.replayed { " (sent again)" } else { "" };
    format!(
        "{}[{}]@{} {time} {} {}: {}: {detail}{again}",
        letter.topic,
        letter.partition,
        letter.offset,
        text(&letter.group),
        text(&letter.reason),
        event(letter),
    )
}

fn event(letter: &DeadLetter) -> String {
    match (&letter.event_type, &letter.event_id) {
        (Some(kind), Some(id)) => format!("{} {id}", kind.chars().filter(|c| !c.is_control()).collect::<String>()),
        _ => "no event".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> DeadLetter {
        DeadLetter {
            topic: "orders.dlq".to_owned(),
            partition: 0,
            offset: 7,
            time: chrono::DateTime::from_timestamp(0, 0),
            event_id: None,
            event_type: None,
            key: None,
            reason: Some("unreadable".to_owned()),
            detail: Some("expected \u{1b}[2Jvalue".to_owned()),
            group: Some("coupon".to_owned()),
            origin_topic: Some("orders".to_owned()),
            origin_partition: Some(3),
            origin_offset: Some(12),
            replayed: true,
            payload: None,
        }
    }

    #[test]
    fn a_letter_is_one_line_that_does_nothing_to_a_terminal() {
        let said = line(&letter());
        let expected =
            "orders.dlq[0]@7 1970-01-01T00:00:00Z coupon unreadable: no event: expected [2Jvalue (sent again)";
        assert_eq!(said, expected);
    }
}
