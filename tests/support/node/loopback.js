// SPDX-License-Identifier: Apache-2.0
// Preload: whatever address a server asks for, it listens on 127.0.0.1 only. Two of the servers have no option for it.
'use strict'

const { Server } = require('net')

const listen = Server.prototype.listen

Server.prototype.listen = function listenOnLoopback(first, ...rest) {
  const callback = rest.find((value) => typeof value === 'function')
  if (first !== null && typeof first === 'object') {
    const wanted = 'port' in first ? Object.assign({}, first, { host: '127.0.0.1' }) : first
    return listen.call(this, wanted, ...rest)
  }
  const port = Number(first)
  if (Number.isInteger(port) && first !== '') return listen.call(this, { port, host: '127.0.0.1' }, callback)
  return listen.call(this, first, ...rest)
}
