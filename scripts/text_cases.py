"""The texts that make_text_fixtures.py trains small vocabularies on, and the nasty strings that tokenizers are compared
on, and how both are written to files. All of it was written for this project or generated here."""
import os
import random

PROSE = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind; it's had a long day.",
    "I'm sure you'll find that we've done what they'd asked, but she's not convinced he'd agree.",
    "In 1969, 600 million people watched; by 2024 that'd be 8,118,835,999. Pi is 3.14159265358979.",
    "\"Don't,\" said the captain, \"unless you're ready.\" We weren't. The ship's bell rang twice.",
    "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig.",
    "Fröhliche Grüße aus Köln: die Straße war heiß, das Mädchen müde, und der Käse süß.",
    "L'été dernier, à Paris, où j'étais élève, le garçon naïf mangeait des crêpes au goût étrange.",
    "El niño comió piñas mañana por la mañana; ¿qué pasó? ¡Nada! Adiós, señor.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Мир и война.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "今日はとても良い天気ですね。明日は雨が降るでしょう。東京タワーに行きました。",
    "我们今天学习中文。语言模型可以回答很多问题。你好，世界！谢谢你的帮助。",
    "안녕하세요. 저는 한국어를 공부하고 있습니다. 오늘 날씨가 좋네요.",
    "שלום עולם. זהו משפט בעברית עם ניקוד: שָׁלוֹם.",
    "مرحبا بالعالم. هذه جملة باللغة العربية مع تشكيل: مَرْحَبًا.",
    "नमस्ते दुनिया। यह हिन्दी में एक वाक्य है। क्षत्रिय, ज्ञान, श्रीमान।",
    "สวัสดีชาวโลก นี่คือประโยคภาษาไทย ไม่มีช่องว่างระหว่างคำ",
    "Xin chào thế giới, đây là tiếng Việt với nhiều dấu: ắ ằ ẳ ẵ ặ ế ề ể ễ ệ.",
    "😀 😃 😄 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇵🇱 🇯🇵 ❤️ ✨ 🤷🏿‍♀️",
]
CODE = [
    "int main(int argc, char **argv)\n{\n    for (int i = 0; i < argc; i++)\n        printf(\"%s\\n\", argv[i]);\n    return 0;\n}\n",
    "def fibonacci(n: int) -> int:\n    \"\"\"Return the n-th number.\"\"\"\n    a, b = 0, 1\n    while n > 0:\n        a, b = b, a + b\n        n -= 1\n    return a\n",
    "fn main() {\n\tlet v: Vec<u32> = (0..10).map(|x| x * x).collect();\n\tprintln!(\"{:?}\", v);\n}\n",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name ORDER BY 2 DESC;\n",
    "<div class=\"box\"><a href=\"https://example.org/?q=1&x=%20\">link</a></div>\r\n",
    "{\"key\": [1, 2.5e-3, null, true], \"nested\": {\"a\": \"b\\u0041\"}}\n",
    "#!/bin/sh\nset -eu\nfor f in *.txt; do\n  wc -l \"$f\" | awk '{print $1}'\ndone\n",
]


def corpus():
    for i in range(6):
        yield from PROSE
        yield from CODE
        yield "    " * i + "indented line with spaces\n\n\n\t\ttabs\n"
    yield "the the the and and of of in in to to is is that that for for you you it it".replace(" ", "  ")


def words():
    return [w for line in PROSE for w in line.split()]


SPECIAL_TEXTS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<|end|>", "<|endless|>",
    "<repo_name>", "<tool_call>", "</tool_call>", "<user>", "<s>", "</s>", "<unk>", "[INST]", "[/INST]", "<tool>",
    "<|start_header_id|>", "<|end_of_text|>", "<|fim_prefix|>", "<|file_sep|>", "<0x0A>", "<file_sep>",
    "<jupyter_start>", "<empty_output>",
]


def make_strings():
    s = [
        "", " ", "  ", "   ", "    ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r", "\r\n", "\r\n\r\n", "\n\r\n\r", " \n", "\n ",
        "  \n  \n", "\t\n", "a", " a", "  a", "   a", "a ", "a  ", "a   b", " a  b   c    d ", "a\nb", "a\n b", "a \nb", "a \n b",
        "a\n\nb", "a\n \nb", "a\r\nb\r\nc", "a\rb", "a\tb", "\ta", "a\t", " \ta", "\t a", "\u00a0", "a\u00a0b", " \u00a0 ",
        "\u3000全角\u3000空白", "a\u2003b\u2009c\u200a", "\u2028line\u2029para", "\u0085next", "\u180e mongolian \u180e",
        "\u200b", "a\u200bb", "\u200d", "\u200e\u200f", "\ufeffBOM", "x\ufeffy", "soft\u00adhyphen", "\u2060word\u2060joiner",
        "\x00", "a\x00b", "\x01\x02\x03", "\x04\x06\x13", "bell\x07", "\x1b[31mred\x1b[0m", "\x7f", "\x80\x9f", "\x0b\x0c", "a\x0bb\x0cc",
        "\x1c\x1d\x1e\x1f",
        "'s", "'S", "it's", "IT'S", "It'S", "we'll WE'LL We'Ll", "I'd I'D", "you're YOU'RE", "they've THEY'VE", "don't DON'T",
        "I'm I'M", "'t't't", "''s", "'sometimes", "'tis 'twas", "a'b'c", "it\u2019s", "we\u2019ll", "\u02bcs", "'\u017f", "x'\u017f y", "'",
        "''", "'''", "''''", "' s", " 's", "'ll'", "rock'n'roll", "'re're're", "s's'S's", "'\u017fx", "'l l", "'LL'Ll'lL",
        "0", "1", "12", "123", "1234", "12345", "1234567890", " 1", "  12", "   123", "1 2 3", "1  2", "a1b2c3", "1a", "3.14", "-1",
        "1,000,000", "1e10", "0x1F", "１２３", "٣٤٥", "१२३४", "Ⅷ Ⅻ", "½ ¾ ²³", "①②③", "一二三", "1\u00a02", "12\n34", "  \n1", "a 1", "a  1",
        "a   1", "tab\t1", "\n1", "x   ½", "v1.2.3-rc4", "192.168.0.1", "2024-07-26T12:34:56Z", "+48 123 456 789",
        "!", "!!", "!!!", "...", "…", "?!", "a!b", "! a", " !", "  !", " !!!\n", "!!!\r\n\r\n", "...\n\n...", "--", "—–-", "«»„”", "()", "[]{}",
        "<>", "&&", "||", "==", "!=", "=>", "->", "::", "//", "/* */", "\\", "\\n", "`code`", "~!@#$%^&*()_+", "{{ x }}", "{% if %}",
        "a.b", "a,b", "a;b", "a:b", "$x", "#x", "@x", "_x_", "__init__", "snake_case_name", "camelCaseName", "HTTPServer", "kebab-case",
        "é", "e\u0301", "e\u0301\u0301", "\u0301", "a\u0301b\u0308", "ñ n\u0303", "Å \u212b A\u030a", "\u1e9b\u0323", "\u0344", "ﬁ ﬂ ﬆ",
        "q\u0307\u0323", "q\u0323\u0307", "\u0958", "\u2126 \u212a", "Zażółć gęślą jaźń", "Zaz\u0307o\u0301l\u0142c\u0301",
        "Việt Vi\u0065\u0323\u0302t", "한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "각 \u1100\u1161\u11a8", "\u0f71\u0f72\u0f74",
        "\u05e9\u05bc\u05c1", "שָׁלוֹם", "مَرْحَبًا", "नमस्ते", "क्ष", "க்ஷ", "สวัสดี", "ກຳ", "မြန်မာ", "ខ្មែរ", "བོད་ཡིག", "ქართული", "Հայերեն", "አማርኛ",
        "ᏣᎳᎩ", "ᐃᓄᒃᑎᑐᑦ", "ߒߞߏ", "Ελληνικά ΑΒΓ ς", "Русский Ёж", "Türkçe İIıi", "ǅ ǆ Ǆ", "ß ẞ SS", "Ω ω", "ʰʷ ˈ", "ªº", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𝟘𝟙𝟚", "𐍈𐍉",
        "𠀀𠮷", "㐀", "豈\uf900", "ｆｕｌｌｗｉｄｔｈ", "ｶﾀｶﾅ", "カ\u3099 ガ", "日本語のテキスト。", "中文，标点！", "「引用」", "🈚︎", "\U000e0041",
        "😀", "😀😀", " 😀", "a😀b", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇵🇱🇯🇵", "❤️", "☺︎", "1️⃣", "🤷🏿‍♀️", "🧑🏻‍🤝‍🧑🏿", "👨\u200d", "\u200d👨", "✨!", "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "\u202eRTL\u202c", "abc שלום def", "1 שלום 2", "\u2066iso\u2069", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\U0001fae8 \U0001fae9",
        "\ue000", "\U000f0000", "\U00040000", "a\u0300\u0301\u0302\u0303\u0304b", "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324",
        "\u2581", "a\u2581b", "\u2581\u2581", " \u2581 ", "<0x41>", "%", "%%", "100%", "@", "a@b.c",
        "Hello, world!", "Hello  World", "hello\nworld\n", "The end.\n", "  leading", "trailing  ", "\n\nleading", "trailing\n\n",
        "mixed \t \n \r\n whitespace \u00a0 \u3000 end", "    four\n        eight\n\ttab\n", "a" * 30, "ab" * 20, "aA" * 10, "é" * 12, "日" * 12,
        "=" * 40, "-" * 33, " " * 40, "\n" * 17, "\t" * 9, "!" * 25, "0" * 21, "'" * 20, "'s" * 12, "\u0301" * 9, "a\u0301" * 9,
    ]
    s += PROSE + CODE
    for t in SPECIAL_TEXTS:
        s += [t, "a%sb" % t, " %s \n" % t, t + t, t[:-1], t[1:], "x" + t[:3] + t]
    s += ["<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>  two spaces", "<s>[INST] a [/INST] b </s>",
          "<|endless|><|end|><|endl|><|end", "<tool_call>{\"a\": 1}</tool_call>", "e\u0301<|im_end|>\u0301", "a <tool> b", "<tool>", "<tool><tool>x"]
    rng = random.Random(20240726)
    vocabulary = words()
    alphabet = "aeéß日한ש ना\u0301\u200d😀👍🏽 \n\t\r'01.,!<|>_\u00a0\u2581İ"
    for _ in range(60):
        s.append("".join(rng.choice(alphabet) for _ in range(rng.randint(2, 40))))
    for _ in range(30):
        s.append(rng.choice(["", " ", "\n"]).join(rng.choice(vocabulary) for _ in range(rng.randint(2, 12))))
    for _ in range(20):
        s.append("".join(chr(rng.choice([rng.randint(0, 0x7f), rng.randint(0x80, 0x7ff), rng.randint(0x800, 0xd7ff),
                                         rng.randint(0x10000, 0x1ffff)])) for _ in range(rng.randint(1, 12))))
    long = 100000
    s += [(long, c) for c in (" ", "\n", "a", "1", "'", "!", "é", "e\u0301", "\u0301", "日", "😀", "\u0323\u0301", " a", "a ", "\r\n", "<", "\t \n",
                              "\u3000", "\u1100\u1161")]
    s += [(5000, "<|im_end|>"), (3000, "<|im_end"), (20000, "ab1 ")]
    return s


STRINGS = make_strings()


def escape(data: bytes) -> str:
    return "".join(chr(b) if 0x21 <= b <= 0x7E and b not in b"%@" else "%%%02X" % b for b in data)


def escape_text(text: str) -> str:
    """As escape, but printable text outside ASCII stays readable."""
    out = []
    for c in text:
        o = ord(c)
        if (0x21 <= o <= 0x7E and c not in "%@") or (o >= 0xA1 and c.isprintable() and not c.isspace()
                                                    and not 0x300 <= o < 0x370 and not 0xD800 <= o < 0xE000):
            out.append(c)
        else:
            out.append("".join("%%%02X" % b for b in c.encode("utf-8")))
    return "".join(out)


def write(directory, name, lines):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "w", encoding="utf-8", newline="\n") as f:
        f.write("\n".join(lines) + "\n")
