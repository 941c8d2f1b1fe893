//! Any function of three bits at each place, in C.

/// The function with this table of (a, b, c): bit 4a + 2b + c.
pub fn expression(table: u8, [a, b, c]: [&str; 3]) -> String {
    // What is left where `a` is 0 and where it is 1: functions of b and c.
    let (low, high) = (table & 15, table >> 4);
    let (without, with) = (of_two(low, b, c), of_two(high, b, c));
    match (low, high) {
        _ if low == high => without,
        _ if low == !high & 15 => format!("{a} ^ ({without})"),
        (0, _) => format!("{a} & ({with})"),
        (15, _) => format!("~{a} | ({with})"),
        (_, 0) => format!("~{a} & ({without})"),
        (_, 15) => format!("{a} | ({without})"),
        _ => format!("({a} & ({with})) | (~{a} & ({without}))"),
    }
}

fn of_two(table: u8, b: &str, c: &str) -> String {
    let one = |table: u8| match table {
        0 => "0u".into(),
        1 => format!("~{c}"),
        2 => c.into(),
        _ => "~0u".into(),
    };
    let (low, high) = (table & 3, table >> 2);
    match (low, high) {
        _ if low == high => one(low),
        _ if low == !high & 3 => format!("{b} ^ {}", one(low)),
        (0, _) => format!("{b} & {}", one(high)),
        (3, _) => format!("~{b} | {}", one(high)),
        (_, 0) => format!("~{b} & {}", one(low)),
        _ => format!("{b} | {}", one(low)),
    }
}
