"""Right answers to the prompts whose checks cannot be answered by rule: one each, written by hand."""

from __future__ import annotations

JSON: dict[str, str] = {
    "001": '{"name": "Amina Diallo", "age": 34, "city": "Dakar"}',
    "002": '["red", "yellow", "blue"]',
    "003": '{"item": "work gloves", "quantity": 12, "unit_price": 3.40}',
    "004": '{"title": "Salt", "author": "R. Vane", "year": 1988, "in_print": false}',
    "005": '{"stop": "Mill Lane", "lat": 53.81, "lon": -1.55, "shelter": true}',
    "006": '[{"day":"Monday","soup":"leek"},{"day":"Tuesday","soup":"lentil"},{"day":"Wednesday","soup":"rest"}]',
    "007": '{"reviews": ["negative", "neutral", "positive"]}',
    "008": '{"yes": 3, "no": 2}',
    "009": '{"answer": 42}',
    "010": '{"host": "mail.harbour.example", "port": 993, "tls": true}',
    "011": '{"street":"Strandgata","number":"17B","postcode":"9008","town":"Tromsø","country":"Norway"}',
    "012": '{"size": "large", "toppings": ["mushrooms", "olives", "ham"], "vegetarian": false}',
    "013": '[{"who":"Lena","what":"order gravel","due":"Wednesday"},{"who":"Piotr","what":"neighbours","due":null},'
    '{"who":"Lena","what":"return the scaffold","due":"30th"}]',
    "014": '{"r": 255, "g": 0, "b": 0}',
    "015": '{"cups": 10, "strength": "strong", "timer": "06:30"}',
    "016": '{"oak": 3, "birch": 5, "hornbeam": 8}',
    "017": '{"ship":"Perseverance","decks":[{"number":1,"cabins":[101,102]},{"number":2,"cabins":[201]}]}',
    "018": '{"name": "Rosa", "skills": ["grafting", "pruning"], "years": 8}',
    "019": '[{"sample":"A1","ph":6.8,"turbid":"no"},{"sample":"A2","ph":7.4,"turbid":"yes"}]',
    "020": '{"type": "Point", "coordinates": [0, 90]}',
    "021": '{"language": "de", "confidence": 0.99}',
    "022": '[{"id":1,"email":"a@example.org"},{"id":2,"email":"b@example.org"},{"id":3,"email":"c@example.org"}]',
    "023": '{"squares": [1, 4, 9, 16, 25, 36]}',
    "024": '{"number":"RE 17","from":"Altdorf","to":"Seehafen","departs":"14:10","stops":["Moorbrück","Linden"]}',
    "025": '{"valid": false}',
    "026": '{"systolic": 128, "diastolic": 82, "pulse": 71, "temp_c": 36.9}',
    "027": '{"items": [{"name": "bread", "count": 1}, {"name": "eggs", "count": 6}]}',
    "028": '{"name": "get_weather", "arguments": {"city": "Porto", "days": 3}}',
    "029": '{"type":"object","properties":{"sku":{"type":"string"},"weight_kg":{"type":"number"}},"required":["sku"]}',
    "030": '{"en": "bridge", "fr": "pont", "de": "Brücke"}',
    "031": '{"date": "2023-04-05", "hens": 24, "eggs": 19, "remark": "one soft-shelled"}',
    "032": r'{"text": "She said \"C:\\temp\" twice."}',
    "033": '{"1": "Monday", "2": "Tuesday", "3": "Wednesday", "4": "Thursday", "5": "Friday"}',
    "034": '{"clarity": 3, "grammar": 4, "interest": 5, "comment": "mostly"}',
    "035": '{"first_name": "Björk", "middle_name": null, "last_name": "Guðmundsdóttir"}',
    "036": '{"name":"Old Hannah","children":[{"name":"Ruth","children":[{"name":"Miriam","children":[]}]},'
    '{"name":"Saul","children":[]}]}',
    "037": '{"servers":[{"name":"web1","up":true},{"name":"web2","up":true},{"name":"db1","up":false}]}',
    "038": "[[1,0,0],[0,1,0],[0,0,1]]",
    "039": '{"ts":"2022-11-08T04:12:55Z","level":"WARN","module":"spool","msg":"queue above 80 percent, throttling"}',
    "040": '[{"id":10,"name":"whisk"},{"id":20,"name":"ladle"},{"id":30,"name":"sieve"},{"id":40,"name":"peeler"}]',
    "041": "false",
    "042": '{"question":"Which knot slips?","options":["bowline","granny","reef","anchor bend"],"answer":1}',
}

CODE: dict[str, str] = {
    "001": "def add(a, b):\n    return a + b",
    "002": "def is_even(n):\n    return n % 2 == 0",
    "003": "SELECT name FROM birds WHERE weight_g > 500;",
    "004": "def reverse_words(sentence):\n    return ' '.join(reversed(sentence.split()))",
    "005": "def fahrenheit(c):\n    return c * 9 / 5 + 32",
    "006": "def parse_kg(s) -> float:\n    return float(s.strip().removesuffix('kg'))",
    "007": "def total(xs):\n    t = 0\n    for x in xs:\n        t += x\n    return t",
    "008": "def count_vowels(text):\n    return sum(c in 'aeiou' for c in text.lower())",
    "009": "def largest(xs):\n    return sorted(xs)[-1]",
    "010": "def fib():\n    a, b = 0, 1\n    while True:\n        yield a\n        a, b = b, a + b",
    "011": "def squares_of_odds(xs):\n    return [x * x for x in xs if x % 2]",
    "012": "class Counter2:\n    def __init__(self):\n        self.value = 0\n\n    def inc(self):\n"
    "        self.value += 1"
    "\n\n    def reset(self):\n        self.value = 0",
    "013": "SELECT name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)",
    "014": "def palindrome(s):\n    s = s.lower()\n    return s == s[::-1]",
    "015": "import statistics\n\ndef median(xs):\n    return statistics.median(xs)",
    "016": "def f(letters):\n    counts = {}\n    for x in letters:\n        counts[x] = counts.get(x, 0) + 1"
    "\n    return counts",
    "017": "import bisect\n\ndef binary_search(xs, target):\n    i = bisect.bisect_left(xs, target)\n"
    "    return i if i < len(xs) and xs[i] == target else -1",
    "018": "cat *.txt | wc -l",
    "019": "tr:nth-child(even) { background: lightgrey; }",
    "020": "function shout(text) { return text.toUpperCase() + '!'; }",
    "021": "def slug(title):\n    return title.lower().replace(' ', '-')\n\nassert slug('A B') == 'a-b'",
    "023": "def flatten(xs):\n    return [y for x in xs for y in x]",
    "024": "SELECT sensor, AVG(value) FROM readings GROUP BY sensor ORDER BY AVG(value) DESC",
    "025": "def leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
    "026": 'def clamp(x: float, lo: float, hi: float) -> float:\n    """x, kept between lo and hi."""\n'
    "    return max(lo, min(x, hi))",
    "027": "def uniq(xs):\n    return list(dict.fromkeys(xs))",
    "028": "def roman(n):\n    out = ''\n    for v, s in ((10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):\n"
    "        while n >= v:\n            out, n = out + s, n - v\n    return out",
    "029": "def pairs(xs):\n    return list(zip(xs, xs[1:]))",
    "030": "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: float\n    y: float\n\n"
    "    def dist(self):\n        return (self.x ** 2 + self.y ** 2) ** 0.5",
    "031": "import re\n\nTIME = re.compile(r'([01]\\d|2[0-3]):[0-5]\\d')\n\ndef is_time(s):\n"
    "    return TIME.fullmatch(s) is not None",
    "032": "def price(net, rate=0.19):\n    return round(net * (1 + rate), 2)",
    "033": "clean:\n\trm -rf build",
    "034": "def initials(name):\n    return ''.join(w[0] for w in name.split(' '))",
    "035": "int gcd(int a, int b) { while (b) { int t = a % b; a = b; b = t; } return a; }",
    "036": "def triangle(n):\n    return '\\n'.join('*' * i for i in range(1, n + 1))",
    "037": "def twice(f):\n    def both(*a, **k):\n        f(*a, **k)\n        return f(*a, **k)\n    return both",
    "038": "def words_longer_than(text, n):\n    return [w for w in text.split() if len(w) > n]",
    "039": "SELECT user FROM logins GROUP BY user HAVING COUNT(DISTINCT day) >= 2",
    "040": "from itertools import groupby\n\ndef run_length(s):\n    return [(k, len(list(g))) for k, g in groupby(s)]",
    "041": "<h1>Tides</h1><ol><li>A</li><li>B</li><li>C</li></ol>",
    "042": "def is_prime(n):\n    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))",
    "044": "def load(rows, found=None):\n    found = [] if found is None else found\n    for row in rows:\n"
    "        found.append({'name': clean(row[0]), 'town': row[1].strip()})\n    return found",
}
