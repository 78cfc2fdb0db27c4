/** Listens on three sockets and prints a line; runs until it is killed: `node socket-holder.ts PATH PATH PATH`. */
import { once } from 'node:events'
import { createServer } from 'node:net'

for (const path of process.argv.slice(2)) await once(createServer().listen(path), 'listening')
process.stdout.write('listening\n')
