//! Numbers as Java's `toString` writes them.
//!
//! Doubles and floats have the fewest digits that identify them, as in Java 19 and later. Older versions of Java write
//! one digit more for some numbers; both texts mean the same number.

/// Writes a number, in quotes if it is NaN or infinite.
#[inline]
pub fn quoted_unless_finite(finite: bool, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if finite {
        return write(to);
    }
    to.push(b'"');
    write(to);
    to.push(b'"');
}

macro_rules! floats {
    ($name:ident, $float:ty) => {
        #[inline]
        pub fn $name(value: $float, to: &mut Vec<u8>) {
            if !value.is_normal() && value != 0.0 {
                if !value.is_finite() {
                    return special(value.into(), to);
                }
                // Java writes at least two digits, the nearest: 4.9E-324, not 5.0E-324.
                let (shortest, two) = (format!("{value:e}"), format!("{value:.1e}"));
                return scientific(if shortest.len() < two.len() { &two } else { &shortest }.as_bytes(), to);
            }
            shortest(zmij::Buffer::new().format_finite(value), value.abs().into(), to);
        }
    };
}

floats!(double, f64);
floats!(float, f32);

#[cold]
fn special(value: f64, to: &mut Vec<u8>) {
    to.extend_from_slice(match value {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    });
}

/// Writes the shortest digits, which `text` has in another notation, in Java's.
#[inline]
fn shortest(text: &str, magnitude: f64, to: &mut Vec<u8>) {
    let text = text.as_bytes();
    let plain = (1e-3..1e7).contains(&magnitude) || magnitude == 0.0;
    if plain && !text.contains(&b'e') {
        to.extend_from_slice(text);
        if !text.contains(&b'.') {
            to.extend_from_slice(b".0");
        }
        return;
    }
    scientific(text, to);
}

/// `d.ddE[-]n` from any notation.
fn scientific(text: &[u8], to: &mut Vec<u8>) {
    let text = match text {
        [b'-', rest @ ..] => {
            to.push(b'-');
            rest
        }
        text => text,
    };
    let (mantissa, mut exponent) = match text.iter().position(|&byte| byte == b'e') {
        Some(at) => (&text[..at], parsed(&text[at + 1..])),
        None => (text, 0),
    };
    let point = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
    exponent += point as i32 - 1;
    // Up to 24 characters, of which at most 17 are significant digits.
    let mut digits = [0; 32];
    let mut count = 0;
    for &byte in mantissa.iter().filter(|byte| **byte != b'.').take(digits.len()) {
        if count == 0 && byte == b'0' {
            exponent -= 1;
            continue;
        }
        digits[count] = byte;
        count += 1;
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    to.extend_from_slice(&[digits[0], b'.']);
    to.extend_from_slice(if count > 1 { &digits[1..count] } else { b"0" });
    to.push(b'E');
    to.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
}

fn parsed(exponent: &[u8]) -> i32 {
    let (sign, digits) = match exponent {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        digits => (1, digits),
    };
    sign * digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0'))
}

/// A decimal of this scale, as `BigDecimal.toString`: scientific below 0.000001.
pub fn decimal(unscaled: i128, scale: usize, to: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(unscaled).as_bytes();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        text => (false, text),
    };
    if negative {
        to.push(b'-');
    }
    if scale == 0 {
        return to.extend_from_slice(digits);
    }
    let exponent = digits.len() as i64 - 1 - scale as i64;
    if exponent < -6 {
        to.push(digits[0]);
        if digits.len() > 1 {
            to.push(b'.');
            to.extend_from_slice(&digits[1..]);
        }
        to.push(b'E');
        return to.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
    }
    if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        to.extend_from_slice(whole);
        to.push(b'.');
        return to.extend_from_slice(fraction);
    }
    to.extend_from_slice(b"0.");
    to.resize(to.len() + scale - digits.len(), b'0');
    to.extend_from_slice(digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        write(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn doubles_are_written_as_in_java() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (9_999_999.0, "9999999.0"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (12_345_678.0, "1.2345678E7"),
            (1e16, "1.0E16"),
            (1.25e300, "1.25E300"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|to| double(value, to)), expected);
        }
        assert_eq!(text(|to| double(1e-323, to)), "9.9E-324");
        assert_eq!(text(|to| double(2.2250738585072e-311, to)), "2.225073858507E-311");
        assert_eq!(text(|to| float(1e-45, to)), "1.4E-45");
        assert_eq!(text(|to| float(0.1, to)), "0.1");
        assert_eq!(text(|to| float(1.6777216e7, to)), "1.6777216E7");
        assert_eq!(text(|to| float(3.4e-5, to)), "3.4E-5");
    }

    #[test]
    fn every_double_reads_back() {
        let mut bits = 0x3039_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits);
            if value.is_finite() {
                assert_eq!(text(|to| double(value, to)).parse::<f64>(), Ok(value));
            }
        }
    }

    #[test]
    fn decimals_are_written_as_in_java() {
        for (unscaled, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (0, 6, "0.000000"),
            (0, 7, "0E-7"),
            (-12345, 2, "-123.45"),
            (5, 2, "0.05"),
            (-123, 3, "-0.123"),
            (1, 6, "0.000001"),
            (1, 7, "1E-7"),
            (-123, 10, "-1.23E-8"),
            (i128::MAX, 0, "170141183460469231731687303715884105727"),
        ] {
            assert_eq!(text(|to| decimal(unscaled, scale, to)), expected);
        }
    }
}
