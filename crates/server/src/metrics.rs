//! What the server counts, as Prometheus reads it.

use crate::audit::Note;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most actions that are counted apart. They are named by this program, not by clients.
const ACTIONS: usize = 64;

/// The upper ends of the buckets of latencies, in microseconds, and as Prometheus writes them.
const BUCKETS: [(u64, &str); 8] = [
    (100, "0.0001"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (5_000, "0.005"),
    (25_000, "0.025"),
    (100_000, "0.1"),
    (500_000, "0.5"),
    (2_500_000, "2.5"),
];

/// How often the store of this process has failed.
pub static STORE_FAILURES: AtomicU64 = AtomicU64::new(0);

/// The counters.
#[derive(Debug)]
pub struct Metrics {
    actions: [OnceLock<Counted>; ACTIONS],
    started: SystemTime,
    /// Connections that were refused because there were too many.
    pub connections_refused: AtomicU64,
    /// Handlers that have panicked.
    pub panics: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            actions: [const { OnceLock::new() }; ACTIONS],
            started: SystemTime::now(),
            connections_refused: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        }
    }
}

/// What is counted of one action.
#[derive(Debug, Default)]
struct Counted {
    name: &'static str,
    /// By the first digit of the status.
    statuses: [AtomicU64; 6],
    /// Those of them that were too many or too long, or could not be served: 413, 429 and 503.
    rejected: [AtomicU64; 3],
    items: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    /// How many took at most as long as each bucket says, and longer than the one before.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// The statuses that are counted apart.
const REJECTED: [u16; 3] = [413, 429, 503];

/// What is true now and is counted elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Open connections.
    pub connections: usize,
    /// Bytes in flight.
    pub in_flight: usize,
    /// How often lines of the audit log could not be written.
    pub audit_failures: u64,
}

impl Metrics {
    /// Counts a request that was answered.
    pub fn count(&self, note: &Note, status: u16, took: Duration) {
        let counted = self.action(if note.action.is_empty() { "other" } else { note.action });
        counted.statuses[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
        if let Some(place) = REJECTED.iter().position(|rejected| *rejected == status) {
            counted.rejected[place].fetch_add(1, Relaxed);
        }
        self.count_items(note);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|(end, _)| micros <= *end).unwrap_or(BUCKETS.len());
        counted.buckets[bucket].fetch_add(1, Relaxed);
        counted.micros.fetch_add(micros, Relaxed);
    }

    /// Counts items of a request that was counted before.
    pub fn count_items(&self, note: &Note) {
        let counted = self.action(if note.action.is_empty() { "other" } else { note.action });
        for (counter, many) in
            [(&counted.items, note.items), (&counted.refused, note.refused), (&counted.bytes, note.bytes)]
        {
            if many > 0 {
                counter.fetch_add(many, Relaxed);
            }
        }
    }

    /// The counters of an action. Beyond the most that are counted apart, the last ones are counted together.
    fn action(&self, name: &'static str) -> &Counted {
        let new = || Counted { name, ..Counted::default() };
        let own = self.actions.iter().map(|slot| slot.get_or_init(new)).find(|counted| counted.name == name);
        own.unwrap_or_else(|| self.actions[ACTIONS - 1].get_or_init(new))
    }

    /// When the server started, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Everything, as text of Prometheus.
    pub fn text(&self, gauges: Gauges) -> String {
        let mut page = Page(String::with_capacity(16 << 10));
        let actions: Vec<&Counted> = self.actions.iter().map_while(OnceLock::get).collect();
        page.requests(&actions);
        page.items(&actions);
        page.latencies(&actions);
        let refused = self.connections_refused.load(Relaxed);
        page.one("connections", "gauge", "Open connections.", gauges.connections as u64);
        page.one("in_flight_bytes", "gauge", "Bytes of requests and answers in flight.", gauges.in_flight as u64);
        page.one("connections_refused_total", "counter", "Connections refused because there were too many.", refused);
        page.one("audit_failures_total", "counter", "Times that the audit log was not written.", gauges.audit_failures);
        page.one("store_failures_total", "counter", "Times that the store failed.", STORE_FAILURES.load(Relaxed));
        page.one("panics_total", "counter", "Requests that failed by a bug.", self.panics.load(Relaxed));
        page.head("build_info", "gauge", "The version of the program.");
        page.line("build_info", &format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1);
        let started = self.started();
        let _ = write!(
            page.0,
            "# HELP process_start_time_seconds When the server started.\n# TYPE process_start_time_seconds gauge\n\
             process_start_time_seconds {started}\n",
        );
        page.0
    }
}

/// The page that Prometheus reads.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP phalanx_server_{name} {help}\n# TYPE phalanx_server_{name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "phalanx_server_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn requests(&mut self, actions: &[&Counted]) {
        self.head("requests_total", "counter", "Requests by action and class of status.");
        for counted in actions {
            let classes = counted.statuses.iter().enumerate().map(|(class, many)| (class, many.load(Relaxed)));
            for (class, many) in classes.filter(|(_, many)| *many > 0) {
                self.line("requests_total", &format!("{{action=\"{}\",status=\"{class}xx\"}}", counted.name), many);
            }
        }
        self.head("rejected_total", "counter", "Requests that were too long or too many, or could not be served.");
        for (place, status) in REJECTED.iter().enumerate() {
            let many: u64 = actions.iter().map(|counted| counted.rejected[place].load(Relaxed)).sum();
            self.line("rejected_total", &format!("{{status=\"{status}\"}}"), many);
        }
    }

    fn items(&mut self, actions: &[&Counted]) {
        type Counter = fn(&Counted) -> &AtomicU64;
        let counters: [(&str, &str, Counter); 3] = [
            ("items_total", "Items by action, with those that were refused.", |counted| &counted.items),
            ("items_refused_total", "Refused items by action.", |counted| &counted.refused),
            ("bytes_total", "Bytes of texts and ciphertexts by action.", |counted| &counted.bytes),
        ];
        for (name, help, counter) in counters {
            self.head(name, "counter", help);
            for counted in actions {
                let many = counter(counted).load(Relaxed);
                self.line(name, &format!("{{action=\"{}\"}}", counted.name), many);
            }
        }
    }

    fn latencies(&mut self, actions: &[&Counted]) {
        self.head("request_seconds", "histogram", "How long requests take, without the network.");
        for counted in actions {
            let name = counted.name;
            let mut total = 0;
            let ends = BUCKETS.iter().map(|(_, end)| *end).chain(["+Inf"]);
            for (many, end) in counted.buckets.iter().zip(ends) {
                total += many.load(Relaxed);
                self.line("request_seconds_bucket", &format!("{{action=\"{name}\",le=\"{end}\"}}"), total);
            }
            let micros = counted.micros.load(Relaxed);
            let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            self.line("request_seconds_sum", &format!("{{action=\"{name}\"}}"), seconds);
            self.line("request_seconds_count", &format!("{{action=\"{name}\"}}"), total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::default();
        let note = Note { action: "seal", items: 3, refused: 1, bytes: 100, ..Note::default() };
        metrics.count(&note, 200, Duration::from_micros(300));
        metrics.count(&note, 429, Duration::from_secs(9));
        metrics.count(&Note::default(), 404, Duration::ZERO);
        let text = metrics.text(Gauges { connections: 7, ..Gauges::default() });
        for line in [
            "phalanx_server_requests_total{action=\"seal\",status=\"2xx\"} 1",
            "phalanx_server_requests_total{action=\"other\",status=\"4xx\"} 1",
            "phalanx_server_rejected_total{status=\"429\"} 1",
            "phalanx_server_items_total{action=\"seal\"} 6",
            "phalanx_server_items_refused_total{action=\"seal\"} 2",
            "phalanx_server_request_seconds_bucket{action=\"seal\",le=\"0.0001\"} 0",
            "phalanx_server_request_seconds_bucket{action=\"seal\",le=\"0.0005\"} 1",
            "phalanx_server_request_seconds_bucket{action=\"seal\",le=\"+Inf\"} 2",
            "phalanx_server_request_seconds_sum{action=\"seal\"} 9.000300",
            "phalanx_server_connections 7",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }

    #[test]
    fn too_many_actions_share_the_last_place() {
        let metrics = Metrics::default();
        for i in 0..2 * ACTIONS {
            let action: &'static str = Box::leak(format!("a{i}").into_boxed_str());
            metrics.count(&Note { action, ..Note::default() }, 200, Duration::ZERO);
        }
        assert_eq!(metrics.text(Gauges::default()).matches("status=\"2xx\"").count(), ACTIONS);
    }
}
