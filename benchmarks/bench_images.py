#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JPEG files to 224 x 224 images on one core: dttrain's loader against Pillow, in one run, in turns.

Pillow does what torchvision's transforms do with it: decode, RandomResizedCrop (convert, crop, resize
with the antialiased triangle filter), or Resize(256) and CenterCrop(224). Both read the same 64
files of 500 x 375. One JSON line per way; ratio = ours / Pillow in processor time. Pillow comes from
DTCTL_PYTHON's environment, or is installed into build/bench-pillow; without it the script says so
and measures nothing.
"""
import io
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5


def pillow_python(root):
    """A Python with Pillow, or None."""
    own = os.path.join(root, "build", "bench-pillow")
    candidates = [sys.executable, os.environ.get("DTCTL_PYTHON"), own + "/bin/python3"]
    probe = ["-c", "import PIL.Image"]

    def works(python):
        return python and os.path.exists(python) and \
            subprocess.run([python] + probe, capture_output=True).returncode == 0

    for python in candidates:
        if works(python):
            return python
    made = subprocess.run([sys.executable, "-m", "venv", own], capture_output=True)
    if made.returncode == 0:
        subprocess.run([own + "/bin/pip", "-q", "install", "pillow"], capture_output=True)
    return own + "/bin/python3" if works(own + "/bin/python3") else None


def random_part(draw, w, h):
    for _ in range(10):
        area = w * h * draw.uniform(0.08, 1)
        ratio = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < cw <= w and 0 < ch <= h:
            x, y = draw.randint(0, w - cw), draw.randint(0, h - ch)
            return x, y, x + cw, y + ch
    return 0, 0, w, h


def pillow_rates(folder):
    """Prints {way: images per second of processor time}."""
    from PIL import Image, __version__
    files = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            files.append(f.read())
    draw = random.Random(1)

    def part(image):
        return image.crop(random_part(draw, *image.size)).resize((224, 224), Image.BILINEAR)

    def middle(image):
        w, h = image.size
        size = (256 * w // h, 256) if w > h else (256, 256 * h // w)
        image = image.resize(size, Image.BILINEAR)
        x, y = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
        return image.crop((x, y, x + 224, y + 224))

    rates = {"pillow": __version__}
    for name, way in (("random part", part), ("evaluation", middle)):
        start = time.process_time()
        for data in files:
            way(Image.open(io.BytesIO(data)).convert("RGB")).tobytes()
        rates[name] = len(files) / (time.process_time() - start)
    print(json.dumps(rates))


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--pillow":
        pillow_rates(sys.argv[2])
        return
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = os.path.join(os.environ.get("DTCTL_BUILD", os.path.join(root, "build")), "release",
                        "benchmarks", "bench_images")
    python = pillow_python(root)
    if not python:
        print("bench_images: Pillow is missing, so nothing is compared", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ours, folder, "write"], check=True, capture_output=True)
        mine, theirs = {}, {}
        for _ in range(ROUNDS):
            out = subprocess.run([ours, folder], check=True, capture_output=True, text=True)
            for line in out.stdout.splitlines():
                row = json.loads(line)
                mine.setdefault(row["what"], []).append(row["images_per_s"])
            out = subprocess.run([python, os.path.abspath(__file__), "--pillow", folder],
                                 check=True, capture_output=True, text=True)
            rates = json.loads(out.stdout)
            version = rates.pop("pillow")
            for name, rate in rates.items():
                theirs.setdefault(name, []).append(rate)
    for what, rates in mine.items():
        peer = statistics.median(theirs[what.split(",")[0]])
        rate = statistics.median(rates)
        print(json.dumps({"bench": "images-pillow", "what": what, "threads": 1,
                          "images_per_s": round(rate), "pillow": version,
                          "pillow_images_per_s": round(peer), "ratio": round(rate / peer, 3)}))


main()
