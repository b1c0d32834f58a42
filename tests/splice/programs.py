"""Write random programs that have every odd shape which statements can take."""

from __future__ import annotations

from random import Random

SIMPLE = (
    "{n}",
    "{n}({n}, {n})",
    "{n} = ({n})",
    "{n}({n},\n{pad}  {n},\n# note ;\n)",
    '{n} = """a\n  b;\n{pad}"""',
    "{n} = 'a;#' \\\n{pad}  'b'",
    "f'''{{{n}}}\n x'''",
    "{n} = x + \\\n {n}",
    "é = 'ü'",
    "pass",
)
COMPOUND = (
    "if {n}:{suite}",
    "if {n}:{suite}{pad}else:{suite}",
    "if {n}:{suite}{pad}elif {n}:{suite}",
    "if {n}:{suite}{pad}elif {n}:{suite}{pad}elif {n}:{suite}{pad}else :{suite}",
    "for {n} in {n}:{suite}",
    "while ({n}\n and x) :{suite}{pad}else:{suite}",
    "def {n}(a,\n   b=1):{suite}",
    "@d\n{pad}# note\n{pad}@e(1)\n{pad}async def {n}():{suite}",
    "class {n}:{suite}",
    "with {n} as x:{suite}",
    "try:{suite}{pad}finally:{suite}",
    "try:{suite}{pad}except {n}:{suite}{pad}else:{suite}",
    "match x:\n{pad}{unit}case {n}.a:{inner}{pad}{unit}case {n}.a:{inner}",
)
NOISE = ("\n", "  \n", "{pad}# note\n", "#far\n", "\f\n", "{pad}# C:\\\n")


class Writer:
    """Writes one program; its numbers go up so that every name is new."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.unit = random.choice(["    ", "  ", "\t", "   "])
        self.count = 0

    def program(self) -> str:
        """A whole program."""
        text = self.body("", 0)
        text = text.rstrip("\n") if self.random.random() < 0.3 else text
        return text.replace("\n", self.random.choice(["\n", "\n", "\r\n", "\r"]))

    def body(self, pad: str, depth: int) -> str:
        """Some statements with comments and blank lines between."""
        lines = [self.noise(pad) + self.statement(pad, depth) for _ in range(self.random.randint(1, 4))]
        return "".join(lines) + self.random.choice(["", "", f"{pad}# tail\n", f"\n{pad}# tail\n"])

    def noise(self, pad: str) -> str:
        """Lines without code."""
        return "".join(self.random.choices(NOISE, k=self.random.choice([0, 0, 0, 1, 2]))).replace("{pad}", pad)

    def statement(self, pad: str, depth: int) -> str:
        """A row of simple statements, or a compound one."""
        if depth > 3 or self.random.random() < 0.5:
            return f"{pad}{self.row(pad)}\n"
        return pad + self.fill(self.random.choice(COMPOUND), pad, depth)

    def row(self, pad: str) -> str:
        """Simple statements on one line."""
        count = self.random.choice([1, 1, 1, 2, 3])
        parts = [self.fill(self.random.choice(SIMPLE), pad, 0) for _ in range(count)]
        row = parts[0]
        for part in parts[1:]:
            row += self.random.choice(["; ", ";", " ; ", f"; \\\n {pad}"]) + part
        return row + self.random.choice(["", "", ";", "  ", "  # c", "; # c;d"])

    def fill(self, template: str, pad: str, depth: int) -> str:
        """A template with new names and suites."""
        text = template.replace("{pad}", pad).replace("{unit}", self.unit).replace("{{", "{").replace("}}", "}")
        for key, indent in (("{suite}", pad), ("{inner}", pad + self.unit)):
            while key in text:
                text = text.replace(key, self.suite(indent, depth), 1)
        while "{n}" in text:
            self.count += 1
            text = text.replace("{n}", f"n{self.count}", 1)
        return text

    def suite(self, pad: str, depth: int) -> str:
        """What follows a colon."""
        if self.random.random() < 0.3:
            return self.random.choice([" ", "", f" \\\n{pad} "]) + self.row(pad) + "\n"
        return self.random.choice(["", " # h", "  "]) + "\n" + self.body(pad + self.unit, depth + 1)
