#!/usr/bin/env python3
"""Writes the made-up topologies of test/data/topology: variants of the real ones there with something missing or changed, and
machines in the manner of others. Usage: scripts/make_topologies.py (from the root of the repository)."""

import pathlib
import re

FOLDER = pathlib.Path("test/data/topology")
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n'
KIND = re.compile(r"\s*<cpukind .*?</cpukind>", re.DOTALL)


def read(name):
    return (FOLDER / name).read_text()


def write(name, text):
    (FOLDER / name).write_text(text)


def bits(cpus):
    """A cpuset as hwloc writes it: words of 32 bits, the highest first."""
    mask, words = sum(1 << cpu for cpu in cpus), []
    while mask or not words:
        words.append("0x%08x" % (mask & 0xFFFFFFFF))
        mask >>= 32
    return ",".join(reversed(words))


def kind(cpus, efficiency=None, **infos):
    rank = "" if efficiency is None else ' forced_efficiency="%d"' % efficiency
    lines = "".join('<info name="%s" value="%s"/>' % item for item in infos.items())
    return '<cpukind cpuset="%s"%s>%s</cpukind>\n' % (bits(cpus), rank, lines)


def with_kinds(text, kinds):
    """The kinds follow the objects: hwloc reads nothing after an element that it does not know."""
    objects, after = KIND.sub("", text).rsplit("</object>", 1)
    return objects + "</object>\n" + "".join(kinds).rstrip() + after


def without(text, types):
    """Leaves out objects of these types; what they hold stays."""
    out, depth = [], []
    for part in re.split(r"(<[^>]*>)", text):
        found = re.match(r'<object type="(\w+)"', part)
        if found and part.endswith("/>"):
            drop = found.group(1) in types
        elif found:
            depth.append(found.group(1) in types)
            drop = depth[-1]
        else:
            drop = part == "</object>" and depth.pop()
        if not drop:
            out.append(part)
    return re.sub(r"\n\s*\n+", "\n", "".join(out))


class Machine:
    """Objects in one another; each package is a NUMA node. All four sets are there: without one, hwloc 2.9 crashes."""

    def __init__(self, model):
        self.model, self.packages = model, []

    def item(self, type, cpus, inside="", **attributes):
        nodes = [i for i, (package, _) in enumerate(self.packages) if set(package) & set(cpus)]
        sets = {"cpuset": bits(cpus), "complete_cpuset": bits(cpus), "nodeset": bits(nodes), "complete_nodeset": bits(nodes)}
        more = "".join(' %s="%s"' % pair for pair in {**attributes, **sets}.items())
        return '<object type="%s"%s%s' % (type, more, ">\n%s</object>\n" % inside if inside else "/>\n")

    def cache(self, level, cpus, size, inside):
        return self.item("L%dCache" % level, cpus, inside, cache_size=size, depth=level, cache_type=0 if level > 1 else 1)

    def core(self, number, cpus, l1=0, l2=0):
        inside = "".join(self.item("PU", [cpu], os_index=cpu) for cpu in cpus)
        inside = self.item("Core", cpus, inside, os_index=number)
        if l1:
            inside = self.cache(1, cpus, l1, inside)
        return self.cache(2, cpus, l2, inside) if l2 else inside

    def text(self, kinds=()):
        cpus, inside = sorted(cpu for package, _ in self.packages for cpu in package), ""
        for i, (package, objects) in enumerate(self.packages):
            info = '<info name="CPUModel" value="%s"/>\n' % self.model
            inside += self.item("Package", package, info + self.item("NUMANode", package, os_index=i) + objects(), os_index=i)
        root = self.item("Machine", cpus, inside, os_index=0, allowed_cpuset=bits(cpus),
                         allowed_nodeset=bits(range(len(self.packages))))
        return HEAD + root + "".join(kinds) + "</topology>\n"


def variants():
    real = read("raptorlake-1370p.xml")  # 6 P cores with 2 threads each: CPUs 0-11; 8 E cores: 12-19
    write("raptorlake-unranked.xml", re.sub(r' forced_efficiency="\d+"', "", real))
    write("raptorlake-nokinds.xml", KIND.sub("", real))
    caches = ["L1Cache", "L1iCache", "L2Cache", "L3Cache"]
    write("raptorlake-nocaches.xml", without(KIND.sub("", real), caches))
    write("raptorlake-partial.xml", with_kinds(real, [kind(range(12), 0, CoreType="IntelCore")]))
    allowed = re.compile(r'allowed_cpuset="[^"]*"')
    half = [0, 1, 2, 3, 4, 5, 12, 13, 14, 15]
    write("raptorlake-half.xml", allowed.sub('allowed_cpuset="%s"' % bits(half), real))
    write("raptorlake-eonly.xml", allowed.sub('allowed_cpuset="%s"' % bits(range(12, 20)), real))

    made = read("arrowlake-285k.xml")  # 8 P cores: CPUs 0-7; 16 E cores: 8-23
    atoms = kind(range(8, 24), 0, CoreType="IntelAtom", FrequencyMaxMHz=4600)
    write("arrowlake-frequencies.xml", with_kinds(made, [kind(range(8, 24), FrequencyMaxMHz=4600),
                                                         kind(range(8), FrequencyMaxMHz=5700)]))
    write("arrowlake-favoured.xml", with_kinds(made, [atoms,
          kind([0, 1, 2, 3, 6, 7], 1, CoreType="IntelCore", FrequencyMaxMHz=5500),
          kind([4, 5], 2, CoreType="IntelCore", FrequencyMaxMHz=5700)]))
    write("arrowlake-threads.xml", without(made, ["Core", *caches]))

    # Older hwloc calls the low-power cores of Meteor Lake and Arrow Lake U IntelAtom, too.
    mobile = read("arrowlake-225u.xml")  # 2 P cores with 2 threads each: CPUs 0-3; 8 E cores: 4-11; 2 LP cores: 12, 13
    write("arrowlake-225u-atoms.xml", with_kinds(mobile, [kind(range(4, 14), 0, CoreType="IntelAtom"),
                                                          kind(range(4), 1, CoreType="IntelCore")]))


def dies(machine, dies, threads, l1):
    """Objects of dies with an L3 each: (cores, bytes); the second thread of a core has a number that is `threads` higher."""
    objects = ""
    for cores, size in dies:
        cpus = both(cores, threads)
        objects += machine.cache(3, cpus, size, "".join(machine.core(core, [core, core + threads], l1, 1 << 20)
                                                        for core in cores))
    return objects


def both(cores, threads):
    return [cpu for core in cores for cpu in (core, core + threads)]


def zen5():
    """4 Zen 5 and 8 Zen 5c cores with an L3 each, threads of a core 12 apart, as a Ryzen AI 9 HX 370 shows them."""
    machine = Machine("AMD Ryzen AI 9 HX 370 (made up)")
    parts = [(range(4), 16 << 20), (range(4, 12), 8 << 20)]
    machine.packages = [(range(24), lambda: dies(machine, parts, 12, 48 << 10))]
    write("zen5-5c.xml", machine.text([kind(both(range(4, 12), 12), FrequencyMaxMHz=3300),
                                       kind(both(range(4), 12), FrequencyMaxMHz=5157)]))


def zen4_x3d():
    """Two dies of 8 equal cores: one has more L3, the other a higher clock."""
    machine = Machine("AMD Ryzen 9 7950X3D (made up)")
    parts = [(range(8), 96 << 20), (range(8, 16), 32 << 20)]
    machine.packages = [(range(32), lambda: dies(machine, parts, 16, 32 << 10))]
    write("zen4-x3d.xml", machine.text([kind(both(range(8), 16), FrequencyMaxMHz=5250),
                                        kind(both(range(8, 16), 16), FrequencyMaxMHz=5763)]))


def server():
    """2 packages of 64 cores with 2 threads each, L3 caches for 8 cores, no kinds."""
    machine = Machine("AMD EPYC 64-Core Processor (made up)")
    for package in range(2):
        parts = [(range(first, first + 8), 32 << 20) for first in range(64 * package, 64 * package + 64, 8)]
        cpus = both(range(64 * package, 64 * package + 64), 128)
        machine.packages.append((cpus, lambda parts=parts: dies(machine, parts, 128, 0)))
    write("server-2x64.xml", machine.text())


variants()
zen5()
zen4_x3d()
server()
