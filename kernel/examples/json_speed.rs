//! How long a JSON document takes: `cargo run --release --example json_speed`.

use std::time::Instant;

use _kernel::formats::json::Json;
use _kernel::formats::{Format, Row};
use arrow_schema::{DataType, Field, TimeUnit};

const ROWS: usize = 1_024;
const ROUNDS: usize = 500;

fn of(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect())
}

/// Nanoseconds a row, the best round of many.
fn measure(name: &str, wanted: DataType, documents: &[String]) {
    let rows: Vec<_> =
        documents.iter().map(|text| Row::Bytes { schema: None, bytes: text.as_bytes() }).collect();
    let mut json = Json::new(wanted, "UTC").expect("a type that JSON can carry");
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let decoded = json.decode(&rows).expect("an array");
        best = best.min(start.elapsed().as_nanos() as f64 / rows.len() as f64);
        assert_eq!(decoded.array.len(), rows.len());
    }
    let bytes = documents.iter().map(String::len).sum::<usize>() / documents.len();
    println!("{name:<40} {best:>7.1} ns a document of {bytes} bytes");
}

fn main() {
    let five = of(&[
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("price", DataType::Float64),
        ("active", DataType::Boolean),
        ("country", DataType::Utf8),
    ]);
    let document = |n: usize| {
        format!(
            "{{\"id\":{},\"name\":\"customer-{n:08}\",\"price\":{}.{:02},\"active\":{},\"country\":\"Netherlands\"}}",
            n * 7919 % 100_000_000,
            n % 1000,
            n % 100,
            n.is_multiple_of(3)
        )
    };
    let documents: Vec<_> = (0..ROWS).map(document).collect();
    measure("five fields", five.clone(), &documents);
    let spaced: Vec<_> =
        documents.iter().map(|text| text.replace(':', ": ").replace(",\"", ", \"")).collect();
    measure("five fields with spaces", five.clone(), &spaced);
    let reordered: Vec<_> = (0..ROWS)
        .map(|n| match n % 3 {
            0 => format!("{{\"country\":\"Netherlands\",\"id\":{n},\"active\":true,\"price\":1.25,\"name\":\"customer-{n:08}\"}}"),
            1 => document(n).replace("\"active\":true,", "").replace("\"active\":false,", ""),
            _ => document(n),
        })
        .collect();
    measure("five fields in changing order", five.clone(), &reordered);
    let damaged: Vec<_> = (0..ROWS)
        .map(|n| if n.is_multiple_of(100) { document(n)[..60].to_owned() } else { document(n) })
        .collect();
    measure("five fields, 1% malformed", five.clone(), &damaged);
    let wrong: Vec<_> = (0..ROWS)
        .map(|n| {
            if n.is_multiple_of(100) {
                document(n).replace(":true", ":1").replace(":false", ":0")
            } else {
                document(n)
            }
        })
        .collect();
    measure("five fields, 1% of a wrong type", five, &wrong);
    let times = of(&[
        ("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ("day", DataType::Date32),
        ("amount", DataType::Decimal128(18, 2)),
    ]);
    let timed: Vec<_> = (0..ROWS)
        .map(|n| format!("{{\"at\":\"2024-05-{:02}T12:{:02}:59.123456Z\",\"day\":\"2024-05-{:02}\",\"amount\":{n}.25}}", n % 28 + 1, n % 60, n % 28 + 1))
        .collect();
    measure("timestamp, date and decimal", times, &timed);

    let names: Vec<String> = (0..20).map(|field| format!("field_{field:02}")).collect();
    let kinds = [DataType::Int64, DataType::Utf8, DataType::Float64, DataType::Utf8];
    let twenty: Vec<_> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), kinds[at % 4].clone())).collect();
    let documents: Vec<String> = (0..ROWS)
        .map(|n| {
            let fields: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(at, name)| match at % 4 {
                    0 => format!("\"{name}\":{}", n * 31 + at),
                    2 => format!("\"{name}\":{}.{:02}", n % 1000, at),
                    _ => format!("\"{name}\":\"value-{:08}\"", n * 17 + at),
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        })
        .collect();
    measure("twenty of twenty fields", of(&twenty), &documents);
    measure("one of twenty fields, the first", of(&twenty[..1]), &documents);
    measure("one of twenty fields, the last", of(&twenty[19..]), &documents);
}
