"""A real browser for tests, and how its texts stand out from what is behind them."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

CONTRAST_FUNCTIONS = """
  const parsed = text => {
    const [r, g, b, a = 1] = text.match(/[0-9.]+/g).map(Number);
    return [r, g, b, a];
  };
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map(each => {
      const part = each / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parsed(getComputedStyle(each).backgroundColor);
      if (colour[3] === 1) return colour;
      if (colour[3] !== 0) throw Error('half transparent: ' + each.tagName);
    }
    return [255, 255, 255, 1];
  };
  const contrast = (element, property) => {
    const colour = parsed(getComputedStyle(element)[property]);
    const [one, other] = [light(colour), light(behind(element))].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  };
"""
# Of every text that is seen: what it says, and how it stands out from what is behind it.
CONTRASTS = f"""() => {{ {CONTRAST_FUNCTIONS}
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {{
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility()) continue;
    const property = element.namespaceURI.endsWith('svg') ? 'fill' : 'color';
    found.push([node.data.trim().slice(0, 40), contrast(element, property)]);
  }}
  return found;
}}"""


def find_browser():
    """Return a Chromium: the one that is named, the one that was installed for the tests, or the machine's."""
    if named := os.environ.get("ESPER_TEST_CHROMIUM"):
        return named
    ours = Path(sys.executable).with_name("chromium-for-tests")
    return str(ours) if ours.is_file() else shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser():
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium: the page was NOT looked at in a browser; run python tests/install_browser.py")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what playwright imports
        from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        # As root there is no other way; what is opened is ours.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--headless=shell"])
        yield started
        started.close()
