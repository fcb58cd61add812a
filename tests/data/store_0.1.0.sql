BEGIN TRANSACTION;
CREATE TABLE images
  (n INTEGER PRIMARY KEY, sha TEXT UNIQUE NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB);
INSERT INTO "images" VALUES(1,'0b4faaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','ring.png',9,X'89504E472072696E67');
INSERT INTO "images" VALUES(3,'77c1bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','dot.png',10,X'89504E4720646F7400FF');
CREATE TABLE runs (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, spec TEXT NOT NULL);
INSERT INTO "runs" VALUES(1,'vvjjct67btng','{"model":"k3-tiny","prompt":"Hello","weights":"0123456789ab"}');
INSERT INTO "runs" VALUES(2,'q2wxitfhoold','{"model":"k3-tiny","prompt":"","weights":"0123456789ab"}');
INSERT INTO "runs" VALUES(3,'4roihx3awnrj','{"model":"k3-tiny","prompt":"{\"a\":1}\n\u4f60\u597d \ud83d\udc69\u200d\ud83d\udc67 \ud800","weights":"0123456789ab"}');
INSERT INTO "runs" VALUES(4,'znntw7j5tst2','{"images":["0b4faaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","77c1bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"],"model":"k3-tiny","prompt":"What is it?","weights":"0123456789ab"}');
INSERT INTO "runs" VALUES(5,'7untbvg3kcwy','{"changes":"[{\"do\":\"zero\",\"index\":1,\"layer\":3,\"what\":\"head\"}]","model":"k3-random","prompt":"x","weights":"fedcba987654"}');
INSERT INTO "runs" VALUES(6,'5x5r3vandwt5','{"model":"k3-recall","more":[72,108,0],"prompt":"go on","weights":"00ff"}');
INSERT INTO "runs" VALUES(7,'wzsuz2kvze7o','{"changes":"[{\"do\":\"zero\",\"index\":1,\"layer\":3,\"what\":\"head\"}]","images":["77c1bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"],"model":"k3-tiny","more":[7],"prompt":"all of it","weights":"0123456789ab"}');
COMMIT;
