// SPDX-License-Identifier: Apache-2.0
// Preload: the server's clock runs ahead by as many milliseconds as the file named by SHARDBATCH_CLOCK_AHEAD says now.
'use strict'

const { readFileSync } = require('fs')
const { performance } = require('perf_hooks')

const path = process.env.SHARDBATCH_CLOCK_AHEAD
const TrueDate = globalThis.Date
const trueOrigin = performance.timeOrigin

// Read at every question: a test that has written the file must see the new time in its very next call.
const ahead = () => Number(readFileSync(path, 'latin1')) || 0

class ShiftedDate extends TrueDate {
  constructor (...parts) {
    if (parts.length > 0) super(...parts)
    else super(TrueDate.now() + ahead())
  }

  static now () {
    return TrueDate.now() + ahead()
  }
}

globalThis.Date = ShiftedDate
Object.defineProperty(performance, 'timeOrigin', { configurable: true, get: () => trueOrigin + ahead() })
